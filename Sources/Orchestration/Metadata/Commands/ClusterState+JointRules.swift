internal import Vocabulary

/// Rules over several objects, checked when an entry is applied.
///
/// A node checks a request against its state when the request arrives. Two requests that arrive
/// together, at one node or at two, can each pass and together break a rule. The log puts them in
/// one order, and the second one is refused here.
///
/// - A form calls the same functions on arrival, for an early answer with an error for each field.
/// - Each rule is a function of the state and the command alone, so every node decides the same.
extension ClusterState {
    /// Why a command breaks a rule over several objects; nil if it breaks none.
    ///
    /// A command that names an object that does not exist passes here; applying it refuses it.
    func jointRefusal(of command: ClusterCommand) -> ClusterRefusal? {
        switch command {
        case .initialise(let birth): refusal(ofMemoryQuota: birth.memoryQuota)
        case .setMemoryQuota(let quota): refusal(ofMemoryQuota: quota)
        case .createBucket(let new):
            allows(bucketQuota: new.settings.quota, for: nil) ? nil : .memoryQuotaExceeded
        case .changeBucket(let change): refusal(of: change)
        case .flushBucket(let step): refusal(ofFlush: step)
        case .addNode(let new): refusal(ofAdding: new)
        case .removeNode(let number): refusal(ofRemoving: number)
        case .startRebalance(let record): refusal(of: record)
        default: nil
        }
    }

    private func refusal(ofMemoryQuota quota: UInt64?) -> ClusterRefusal? {
        guard let quota else { return nil }
        guard allows(memoryQuota: quota) else { return .memoryQuotaExceeded }
        return nodeTooSmall(forMemoryQuota: quota) == nil ? nil : .nodeTooSmall
    }

    private func refusal(of change: BucketChange) -> ClusterRefusal? {
        guard let place = place(ofBucket: change.settings.name, change.settings.uuid),
            !allows(bucketQuota: change.settings.quota, for: buckets[place])
        else { return nil }
        return .memoryQuotaExceeded
    }

    /// A flush that waited for an earlier flush can reach the log after the permission is gone.
    private func refusal(ofFlush step: BucketStep) -> ClusterRefusal? {
        guard step.phase == .begin, let place = place(ofBucket: step.name, step.uuid),
            !buckets[place].settings.flushEnabled
        else { return nil }
        return .flushDisabled
    }

    /// The first node is added before its cluster is provisioned and always passes.
    private func refusal(ofAdding new: NewNode) -> ClusterRefusal? {
        guard !nodes.isEmpty else { return nil }
        guard rebalance == nil else { return .rebalanceRunning }
        guard new.memoryTotal != 0, !Self.canGive(memoryQuota, of: new.memoryTotal) else {
            return nil
        }
        return .nodeTooSmall
    }

    /// An eject waits until the node has no vote; a rebalance can make the node active meanwhile.
    ///
    /// A node that has not finished joining can be removed at any time.
    private func refusal(ofRemoving number: NodeNumber) -> ClusterRefusal? {
        switch node(number: number)?.membership {
        case .active: .nodeInUse
        case .inactiveAdded, .inactiveFailed: rebalance == nil ? nil : .rebalanceRunning
        case .joining, .leftBehind, nil: nil
        }
    }

    /// A bucket without replicas can be created between the check of a request and its entry.
    private func refusal(of record: RebalanceRecord) -> ClusterRefusal? {
        guard record.kind == .gracefulFailover, rebalance == nil, haveOnlyCopies(record.ejected)
        else { return nil }
        return .onlyCopies
    }
}
