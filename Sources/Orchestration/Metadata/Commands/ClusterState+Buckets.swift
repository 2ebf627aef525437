internal import Vocabulary

/// Creates, changes, flushes and deletes buckets.
extension ClusterState {
    mutating func create(_ new: NewBucket) -> ClusterOutcome {
        let name = new.settings.name
        guard isProvisioned else { return .refused(.notInitialised) }
        guard rebalance == nil else { return .refused(.rebalanceRunning) }
        guard buckets.count < settings.maxBucketCount else { return .refused(.tooManyBuckets) }
        guard !hasBucket(like: name) else { return .refused(.bucketExists) }
        let isGoing = deletedBuckets.contains { $0.name.lowercased() == name.lowercased() }
        guard !isGoing else { return .refused(.bucketBeingDeleted) }
        guard new.settings.password.count <= Limits.userCredentialsBytesMax else {
            return .refused(.userImpossible)
        }
        let copies = 1 + new.settings.replicas
        let isPossible = new.rows.allSatisfy { row in
            !row.isEmpty && row.count <= copies && row.allSatisfy(isActive)
        }
        guard isPossible, (1...NodeChain.countMax).contains(copies),
            !new.rows.isEmpty, new.rows.count == new.settings.vBuckets
        else { return .refused(.rowsImpossible) }
        var bucket = BucketRecord()
        bucket.settings = new.settings
        bucket.options = new.options
        bucket.placements = new.rows.map {
            VBucketPlacement(chain: $0, copies: UInt8(copies), index: index)
        }
        bucket.rev = index
        buckets.append(bucket)
        buckets.sort { $0.settings.name < $1.settings.name }
        return .applied([.bucketCreated(name: name)])
    }

    mutating func change(bucket change: BucketChange) -> ClusterOutcome {
        let new = change.settings
        guard let place = place(ofBucket: new.name, new.uuid) else {
            return .refused(.bucketUnknown)
        }
        let old = buckets[place].settings
        let basis = BucketChange.Basis(settings: old, options: buckets[place].options)
        guard change.was ?? basis == basis else { return .refused(.changedMeanwhile) }
        guard new.password.count <= Limits.userCredentialsBytesMax else {
            return .refused(.userImpossible)
        }
        guard old.type == new.type, old.vBuckets == new.vBuckets,
            (0..<NodeChain.countMax).contains(new.replicas)
        else { return .refused(.rowsImpossible) }
        buckets[place].settings = new
        buckets[place].options = change.options
        buckets[place].rev = index
        // A vBucket keeps its number of copies until its move ends. If its chain has at most one
        // copy, the number falls at once: there is no other copy whose answer could count.
        var lowered: [VBucketID] = []
        for vBucket in buckets[place].placements.indices {
            let placement = buckets[place].placements[vBucket]
            guard placement.chain.count <= 1, placement.isConfirmed, !placement.isJoint,
                Int(placement.copies) > 1 + new.replicas
            else { continue }
            buckets[place].placements[vBucket].copies = UInt8(1 + new.replicas)
            lowered.append(VBucketID(UInt16(vBucket)))
        }
        var effects = [ClusterEffect.bucketChanged(name: new.name)]
        if !lowered.isEmpty {
            effects.append(.assignmentsChanged(bucket: new.name, lowered))
        }
        return .applied(effects)
    }

    mutating func delete(bucket step: BucketStep) -> ClusterOutcome {
        let gone = DeletedBucket(name: step.name, uuid: step.uuid)
        if step.phase == .end {
            guard deletedBuckets.contains(gone) else { return .refused(.bucketUnknown) }
            deletedBuckets.removeAll { $0 == gone }
            return .applied([])
        }
        guard let place = place(ofBucket: step.name, step.uuid) else {
            return .refused(.bucketUnknown)
        }
        guard rebalance == nil else { return .refused(.rebalanceRunning) }
        buckets.remove(at: place)
        deletedBuckets.append(gone)
        let users = revokeGrants(forBucket: step.name)
        let revoked = users.isEmpty ? [] : [ClusterEffect.usersChanged(users)]
        return .applied([.bucketDeleted(name: step.name)] + revoked)
    }

    /// Gives every vBucket a new fence under which its copies start empty; this promotes no copy.
    mutating func flush(bucket step: BucketStep) -> ClusterOutcome {
        guard let place = place(ofBucket: step.name, step.uuid) else {
            return .refused(.bucketUnknown)
        }
        if step.phase == .end {
            guard let running = buckets[place].flush, running == step.flush else {
                return .refused(.flushNotRunning)
            }
            buckets[place].flush = nil
            return .applied([])
        }
        guard rebalance == nil else { return .refused(.rebalanceRunning) }
        guard buckets[place].flush == nil else { return .refused(.flushRunning) }
        buckets[place].flush = index
        let gone = gone
        for vBucket in buckets[place].placements.indices {
            let chain = buckets[place].placements[vBucket].chain
            buckets[place].placements[vBucket].flush(at: index, without: gone)
            if buckets[place].placements[vBucket].chain != chain { buckets[place].rev = index }
        }
        return .applied([.bucketFlushed(name: step.name)])
    }
}

/// Creates, replaces and deletes design documents.
///
/// A bucket keeps its design documents when it is flushed, and they end with the bucket. A deleted
/// one leaves nothing behind: created again, its revisions begin at 1.
extension ClusterState {
    /// Why a design document cannot have this text; nil if it can.
    ///
    /// `put` calls it when the entry is applied, because two requests that each pass on arrival can
    /// exceed the sum together.
    package func refusal(of change: DesignDocumentChange) -> ClusterRefusal? {
        guard let place = place(ofBucketWithUUID: change.bucket) else { return .bucketUnknown }
        guard (1...Limits.designNameBytesMax).contains(change.name.utf8.count),
            change.body.count <= Limits.designDocumentBytesMax
        else { return .designDocumentTooLarge }
        let old = buckets[place].designDocument(named: change.name)
        let present = old?.revision ?? .absent
        guard change.was ?? present == present else { return .changedMeanwhile }
        let after = designBytes(with: change, replacing: old)
        // A shorter text passes also if a later release allowed more than this one.
        guard after <= max(Limits.designDocumentsBytesMax, designBytes) else {
            return .designDocumentsTooLarge
        }
        // The same holds for fewer views.
        guard designViews(with: change, replacing: old) <= max(Limits.viewsOfAllMax, designViews)
        else { return .tooManyViews }
        return nil
    }

    /// The bytes of all design documents after a change.
    package func designBytes(
        with change: DesignDocumentChange,
        replacing old: DesignDocument?
    ) -> Int {
        designBytes - (old?.byteCount ?? 0)
            + DesignDocument.byteCount(name: change.name, body: change.body)
    }

    /// The views of all design documents.
    private var designViews: Int {
        buckets.reduce(0) { $0 + $1.designDocuments.reduce(0) { $0 + $1.viewCount } }
    }

    /// The views of all design documents after a change.
    package func designViews(
        with change: DesignDocumentChange,
        replacing old: DesignDocument?
    ) -> Int {
        designViews - (old?.viewCount ?? 0) + DesignDocument.viewCount(of: change.body)
    }

    mutating func put(_ change: DesignDocumentChange) -> ClusterOutcome {
        if let refusal = refusal(of: change) { return .refused(refusal) }
        guard let place = place(ofBucketWithUUID: change.bucket) else {
            return .refused(.bucketUnknown)
        }
        let old = buckets[place].designDocument(named: change.name)
        guard old?.body != change.body else { return .applied([]) }
        let document = DesignDocument(
            name: change.name,
            body: change.body,
            number: (old?.revision.number ?? 0) &+ 1
        )
        buckets[place].replace(document)
        return designChanged(place)
    }

    mutating func delete(_ removal: DesignDocumentRemoval) -> ClusterOutcome {
        guard let place = place(ofBucketWithUUID: removal.bucket) else {
            return .refused(.bucketUnknown)
        }
        guard let old = buckets[place].designDocument(named: removal.name) else {
            return .refused(.designDocumentUnknown)
        }
        guard removal.was ?? old.revision == old.revision else {
            return .refused(.changedMeanwhile)
        }
        buckets[place].designDocuments.removeAll { $0.isNamed(removal.name) }
        return designChanged(place)
    }

    private mutating func designChanged(_ place: Int) -> ClusterOutcome {
        buckets[place].designRevision = index
        return .applied([.designDocumentsChanged(bucket: buckets[place].settings.name)])
    }

    private func place(ofBucketWithUUID uuid: String) -> Int? {
        buckets.firstIndex { $0.settings.uuid == uuid }
    }
}
