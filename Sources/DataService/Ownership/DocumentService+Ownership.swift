internal import Bytes
internal import Engine
package import Vocabulary

/// What came of it.
package enum ActivationOutcome: Hashable, Sendable {
    /// It serves, or will as soon as the map confirms it.
    case ready(CopyReport)
    /// It is not what it was taken for: this is what it is.
    case refused(CopyReport)
}

/// Who owns a vBucket: what the orchestrator asks of this node's copies.
extension DocumentService {
    /// Has copies take nothing more from the active ones of these fences, and an active one serve no
    /// more; the reports of those that follow them.
    ///
    /// When this returns no acknowledgement of such a fence can be made any more, but for ones that
    /// say less than the reports. Making the promise durable is the caller's.
    package func seal(
        _ name: String,
        _ vBuckets: [(vBucket: VBucketID, fence: UInt64)]
    ) -> [CopyReport] {
        guard let bucket = bucket(named: name) else { return [] }
        var reports: [CopyReport] = []
        for (id, fence) in vBuckets {
            guard let vBucket = bucket.engine[id.number] else { continue }
            reports.append(
                vBucket.withCore { core in
                    if core.ownership.fence == fence { core.seal() }
                    return core.report(boot: boot)
                }
            )
            bucket.handOvers.settle(id)
        }
        bucket.traffic.tell(.ownership, of: vBuckets.map(\.vBucket))
        bucket.desk.ownershipChanged(vBuckets.map(\.vBucket))
        return reports
    }

    /// What this node has of a bucket, or of these vBuckets; copies that it has not left out.
    package func reports(_ name: String, of vBuckets: [VBucketID]? = nil) -> [CopyReport] {
        guard let bucket = bucket(named: name) else { return [] }
        let asked = vBuckets?.compactMap { bucket.engine[$0.number] } ?? bucket.engine.all
        var reports = asked.compactMap { vBucket in
            vBucket.withCore { $0.ownership.exists ? $0.report(boot: boot) : nil }
        }
        if let unread = bucket.disk?.warmup.unread, !unread.isEmpty {
            for place in reports.indices {
                reports[place].isUnreadable = unread.contains(reports[place].vBucket)
            }
        }
        // Whoever asks for some of them waits until they are on disk.
        if vBuckets != nil, let disk = bucket.disk {
            for report in reports where report.persisted < report.high {
                disk.flushSoon(report.vBucket)
            }
        }
        return reports
    }

    /// How far all that this node serves of a bucket is; nil where it has no such bucket.
    package func served(_ name: String) -> ServedHighs? {
        guard let bucket = bucket(named: name) else { return nil }
        var served = ServedHighs()
        for vBucket in bucket.engine.all {
            vBucket.withCore { core in
                guard core.state == .active, core.ownership.exists else { return }
                served.add(core.id, fence: core.ownership.fence, high: core.highSeqno)
            }
        }
        return served
    }

    /// How many changes copies here discarded since this was asked last, by bucket: nobody else had
    /// them, and the history that the cluster goes on with does not.
    package func takeDiscarded() -> [String: UInt64] {
        discarded.withLock { counts in
            defer { counts = [:] }
            return counts
        }
    }

    /// Has copies serve, each if it is what it was taken for, under a fence that the map has.
    package func activate(
        _ name: String,
        _ activations: [CopyActivation]
    ) -> [ActivationOutcome] {
        guard let bucket = bucket(named: name) else { return [] }
        let map = bucket.assignment
        var outcomes: [ActivationOutcome] = []
        for activation in activations {
            let (id, fence) = (activation.vBucket, activation.fence)
            // A new history needs a name, whether or not the copy is refused.
            let uuid: VBucketUUID? =
                if case .promotion = activation.reason { newUUID() } else { nil }
            guard let vBucket = bucket.engine[id.number] else { continue }
            let isConfirmed = map.map { $0[id].fence == fence && $0[id].isConfirmed } ?? false
            let isReady = vBucket.withCore { core in
                let wasReady = core.ownership.readyFence == fence
                let isReady = core.activate(activation, naming: uuid, isConfirmed: isConfirmed)
                // Whoever has them beyond the point where the new history begins has them alone.
                if isReady, !wasReady, case .promotion = activation.reason {
                    let began = core.failoverLog.current.seqno
                    let lost = core.outstandingPrepares.map(\.seqno).filter { $0 > began }
                    bucket.desk.void(lost, of: id)
                }
                return isReady
            }
            let report = vBucket.withCore { $0.report(boot: boot) }
            outcomes.append(isReady ? .ready(report) : .refused(report))
            bucket.disk?.noteDirty(id)
        }
        bucket.traffic.tell(.ownership, of: activations.map(\.vBucket))
        bucket.desk.ownershipChanged(activations.map(\.vBucket))
        tellMaps()
        return outcomes
    }
}

extension VBucketCore {
    /// Checks that the copy is what it was taken for, and has it serve, or wait for the map to
    /// confirm that.
    fileprivate mutating func activate(
        _ activation: CopyActivation,
        naming uuid: VBucketUUID?,
        isConfirmed: Bool
    ) -> Bool {
        let fence = activation.fence
        guard ownership.fence == fence, ownership.exists, !ownership.isSealed,
            !ownership.isResetting, isLoaded
        else { return false }
        if ownership.readyFence == fence { return true }
        guard state == .pending else { return false }
        switch activation.reason {
        case .promotion(let expected):
            if let expected, position < expected { return false }
        case .takeover(let final):
            guard openSnapshot == nil, highSeqno == final, ownership.wasIntact else { return false }
        case .resumption(let served):
            guard ownership.servedFence == served else { return false }
        }
        beginServing(uuid, fence: fence, isConfirmed: isConfirmed)
        return true
    }
}
