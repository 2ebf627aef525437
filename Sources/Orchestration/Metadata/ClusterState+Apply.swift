internal import Vocabulary

/// The replicated state machine: same commands, same order, same state.
extension ClusterState {
    /// Applies one command.
    ///
    /// - Parameters:
    ///   - command: What was agreed on.
    ///   - index: Its place in the agreed order: one after the last.
    /// - Returns: What it did. A refused command takes its index all the same.
    package mutating func apply(_ command: ClusterCommand, at index: UInt64) -> ClusterOutcome {
        precondition(index == self.index + 1, "commands are applied in order, none left out")
        self.index = index
        switch command {
        case .initialise(let uuid, let administrator):
            return initialise(uuid, administrator)
        case .setAdministrator(let administrator):
            guard isProvisioned else { return .refused(.notInitialised) }
            self.administrator = administrator
            return .applied([.administratorChanged])
        case .setName(let name):
            self.name = name
            rev = index
            return .applied([.nodesChanged])
        case .setMemoryQuota(let quota):
            memoryQuota = quota
            return .applied([])
        case .setNode(let node):
            return set(node)
        case .createBucket(let bucket):
            return create(bucket)
        case .changeBucket(let bucket):
            return change(bucket)
        case .deleteBucket(let name, let uuid):
            return deleteBucket(name, uuid)
        case .setSettings(let settings):
            self.settings = settings
            return .applied([])
        }
    }

    private mutating func initialise(
        _ uuid: String,
        _ administrator: Administrator
    ) -> ClusterOutcome {
        guard !isProvisioned else { return .refused(.alreadyInitialised) }
        self.uuid = uuid
        self.administrator = administrator
        rev = index
        return .applied([.administratorChanged, .nodesChanged])
    }

    private mutating func set(_ node: NodeRecord) -> ClusterOutcome {
        if let place = nodes.firstIndex(where: { $0.number == node.number }) {
            nodes[place] = node
        } else {
            nodes.append(node)
            nodes.sort { $0.number < $1.number }
        }
        rev = index
        // Bucket configurations name hosts and ports too, so their revisions move as well.
        for place in buckets.indices where buckets[place].servers.contains(node.number) {
            buckets[place].rev = index
        }
        return .applied([.nodesChanged])
    }

    private mutating func create(_ bucket: BucketRecord) -> ClusterOutcome {
        let name = bucket.settings.name
        guard isProvisioned else { return .refused(.notInitialised) }
        guard buckets.count < settings.maxBucketCount else { return .refused(.tooManyBuckets) }
        guard !hasBucket(like: name) else { return .refused(.bucketExists) }
        var bucket = bucket
        bucket.rev = index
        buckets.append(bucket)
        buckets.sort { $0.settings.name < $1.settings.name }
        return .applied([.bucketCreated(name: name)])
    }

    private mutating func change(_ bucket: BucketRecord) -> ClusterOutcome {
        guard let place = place(ofBucket: bucket.settings.name, bucket.settings.uuid) else {
            return .refused(.bucketUnknown)
        }
        buckets[place] = bucket
        buckets[place].rev = index
        return .applied([.bucketChanged(name: bucket.settings.name)])
    }

    private mutating func deleteBucket(_ name: String, _ uuid: String) -> ClusterOutcome {
        guard let place = place(ofBucket: name, uuid) else { return .refused(.bucketUnknown) }
        buckets.remove(at: place)
        return .applied([.bucketDeleted(name: name)])
    }

    private func place(ofBucket name: String, _ uuid: String) -> Int? {
        buckets.firstIndex { $0.settings.name == name && $0.settings.uuid == uuid }
    }

    /// A bucket has this name, upper or lower case.
    package func hasBucket(like name: String) -> Bool {
        let name = name.lowercased()
        return buckets.contains { $0.settings.name.lowercased() == name }
    }
}
