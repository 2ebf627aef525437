internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
package import Vocabulary

/// The outcome of one activation.
package enum ActivationOutcome: Hashable, Sendable {
    /// The copy serves, or will as soon as the map confirms it.
    case ready(CopyReport)
    /// The copy does not meet the activation's condition; the report has its actual state.
    case refused(CopyReport)
}

/// The orchestrator's requests to this node's copies.
extension DocumentService {
    /// Seals copies of these fences: a replica accepts no more changes, an active copy stops
    /// serving.
    ///
    /// After this returns, no acknowledgement of such a fence can be sent that covers more than the
    /// reports do. The caller has to make the seals durable.
    ///
    /// - Returns: The report of each vBucket that the bucket has; empty if there is no such bucket.
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
            bucket.handOvers.resume(id)
        }
        bucket.traffic.notify(.ownership, of: vBuckets.map(\.vBucket))
        bucket.syncWrites.ownershipChanged(vBuckets.map(\.vBucket))
        return reports
    }

    /// The reports of this node's copies of a bucket, or of the given vBuckets of it.
    ///
    /// - Returns: No entry for a vBucket without a copy here; empty if there is no such bucket.
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
        // The caller waits until the copies that it names are persisted.
        if vBuckets != nil, let disk = bucket.disk {
            for report in reports where report.persisted < report.high {
                disk.flushSoon(report.vBucket)
            }
        }
        return reports
    }

    /// A digest of the fences and high seqnos of a bucket's active copies here; nil if there is no
    /// such bucket.
    package func served(_ name: String) -> ActiveSeqnoDigest? {
        guard let bucket = bucket(named: name) else { return nil }
        var served = ActiveSeqnoDigest()
        for vBucket in bucket.engine.all {
            vBucket.withCore { core in
                guard core.state == .active, core.ownership.exists else { return }
                served.add(core.id, fence: core.ownership.fence, high: core.highSeqno)
            }
        }
        return served
    }

    /// The number of changes that copies here discarded since the last call, by bucket.
    ///
    /// No other node had them, and the cluster's history does not contain them.
    package func removeDiscardedCounts() -> [String: UInt64] {
        discarded.withLock { exchange(&$0, with: [:]) }
    }

    /// Activates copies that meet their conditions, under a fence of the map.
    package func activate(
        _ name: String,
        _ activations: [CopyActivation]
    ) -> [ActivationOutcome] {
        guard let bucket = bucket(named: name) else { return [] }
        let map = bucket.assignment
        var outcomes: [ActivationOutcome] = []
        for activation in activations {
            let (id, fence) = (activation.vBucket, activation.fence)
            // A new history needs a UUID. It is drawn even if the activation is refused.
            let uuid: VBucketUUID? =
                if case .promotion = activation.reason { newUUID() } else { nil }
            guard let vBucket = bucket.engine[id.number] else { continue }
            let isConfirmed = map.map { $0[id].fence == fence && $0[id].isConfirmed } ?? false
            let isReady = vBucket.withCore { core in
                recordActivated(activation, core, of: bucket)
                let wasReady = core.ownership.readyFence == fence
                let isReady = core.activate(activation, naming: uuid, isConfirmed: isConfirmed)
                // Only this copy has the prepares after the seqno where the new history begins.
                if isReady, !wasReady, case .promotion = activation.reason {
                    let began = core.failoverLog.current.seqno
                    let lost = core.outstandingPrepares.map(\.seqno).filter { $0 > began }
                    bucket.syncWrites.void(lost, of: id)
                }
                return isReady
            }
            let report = vBucket.withCore { $0.report(boot: boot) }
            outcomes.append(isReady ? .ready(report) : .refused(report))
            bucket.disk?.markDirty(id)
        }
        bucket.traffic.notify(.ownership, of: activations.map(\.vBucket))
        bucket.syncWrites.ownershipChanged(activations.map(\.vBucket))
        notifyMapListeners()
        return outcomes
    }
}

extension VBucketCore {
    /// Activates the copy if it meets the condition; until the map confirms it, the copy only
    /// waits.
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

/// Dropping copies that the map removes or that have to be rebuilt.
///
/// The disk comes first, on the lane that commits, so that nothing of the next copy is written
/// before; then memory. Meanwhile the copy is neither written to nor flushed
/// (`Ownership.isResetting`).
extension DocumentService {
    private static let retryNanoseconds: UInt64 = 1_000_000_000

    /// Drops copies that this node no longer has or that begin empty; those of one file in one
    /// commit.
    func drop(
        _ vBuckets: [VBucketID],
        of bucket: OpenBucket,
        _ dropped: @escaping @Sendable (VBucketID) -> Void
    ) {
        guard let disk = bucket.disk else {
            for id in vBuckets { forget(id, of: bucket) { dropped(id) } }
            return
        }
        let byFile = Dictionary(grouping: vBuckets) { disk.file(of: $0).number }
        for (_, ids) in byFile.sorted(by: { $0.key < $1.key }) {
            forget(ids, of: bucket, disk: disk, done: dropped)
        }
    }

    /// Empties a copy that follows `fence`, then calls `done` from any lane.
    func reset(
        _ id: VBucketID,
        of bucket: OpenBucket,
        fence: UInt64,
        _ done: @escaping @Sendable () -> Void
    ) {
        guard let vBucket = bucket.engine[id.number] else { return }
        let isDue = vBucket.withCore { core in
            guard core.follows(fence) else { return false }
            core.beginReset()
            return true
        }
        guard isDue else { return done() }
        if let disk = bucket.disk {
            forget([id], of: bucket, disk: disk) { _ in done() }
        } else {
            forget(id, of: bucket, done)
        }
    }

    /// Whether the copy still has to be emptied: after the first request has emptied it, it may
    /// have new data.
    private func isDue(_ id: VBucketID, of bucket: OpenBucket) -> Bool {
        bucket.engine[id.number]?.withCore { $0.ownership.isResetting } ?? false
    }

    /// Drops a copy without a disk.
    private func forget(
        _ id: VBucketID,
        of bucket: OpenBucket,
        _ done: @escaping @Sendable () -> Void
    ) {
        lanes.nonIO.lane.post { [self] in
            if isDue(id, of: bucket) { empty(id, of: bucket) }
            done()
        }
    }

    /// Drops copies of one file once none of them is being loaded: loading would restore the data.
    private func forget(
        _ ids: [VBucketID],
        of bucket: OpenBucket,
        disk: BucketDisk,
        done: @escaping @Sendable (VBucketID) -> Void
    ) {
        let gathered = Guarded((left: ids.count, loaded: [VBucketID]()))
        for id in ids {
            disk.warmup.whenForgettable(id) { [self] completion in
                var isLoaded = false
                if case .ready = completion { isLoaded = true }
                let loaded: [VBucketID]? = gathered.withLock { gathered in
                    gathered.left -= 1
                    if isLoaded { gathered.loaded.append(id) }
                    return gathered.left == 0 ? gathered.loaded.sorted() : nil
                }
                // The file is closed, so that nothing of it can be loaded.
                if !isLoaded { done(id) }
                guard let loaded, let first = loaded.first else { return }
                lanes.writer(ofLane: disk.file(of: first).number).lane.post { [self] in
                    erase(loaded, of: bucket, file: disk.file(of: first), done: done)
                }
            }
        }
    }

    /// Erases copies from their file and from memory, on the writer lane.
    private func erase(
        _ ids: [VBucketID],
        of bucket: OpenBucket,
        file: LaneStore,
        done: @escaping @Sendable (VBucketID) -> Void
    ) {
        let due = ids.filter { isDue($0, of: bucket) }
        do throws(StorageError) {
            try file.drop(due)
            for id in due { empty(id, of: bucket) }
            for id in ids { done(id) }
        } catch {
            guard error.code != .gone, !bucket.isRetired else {
                for id in ids { done(id) }
                return
            }
            let what = due.count == 1 ? "\(due[0])" : "\(due.count) vBuckets"
            environment.trace.error(
                "storage",
                "dropping \(what) failed and is retried: \(error.description)"
            )
            lanes.writer(ofLane: file.number).lane.post(
                after: DocumentService.retryNanoseconds
            ) { [self] in
                erase(ids, of: bucket, file: file, done: done)
            }
        }
    }

    private func empty(_ id: VBucketID, of bucket: OpenBucket) {
        let uuid = newUUID()
        bucket.engine[id.number]?.withCore { $0.endReset(uuid) }
        bucket.traffic.notify(.ownership, of: id)
        bucket.disk?.markDirty(id)
    }
}
