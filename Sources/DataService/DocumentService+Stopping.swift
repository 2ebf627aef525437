internal import Bytes
internal import Engine
internal import Persistence
internal import Seams

/// The end of a data service, in four steps: `refuseWrites`, `persistAll` while clients still read,
/// `endFeeds` before the readers of changes are closed, and `stop` when no client is connected.
///
/// - After `refuseWrites` no write is acknowledged except a durable one that was prepared before.
/// - What was acknowledged is persisted before anything is closed.
extension DocumentService {
    /// Refuses clients' writes with a temporary failure, in all buckets; reads are served.
    package func refuseWrites() {
        for bucket in startHolding(.nodeStop) { bucket.engine.holdWrites(.nodeStop) }
    }

    /// Persists all changes, then answers durable writes that are not decided as ambiguous, and calls
    /// `done` from any lane.
    ///
    /// Copies of other nodes' vBuckets receive changes meanwhile; `stop` persists these.
    ///
    /// - Parameters:
    ///   - progress: Called each second with the number of changes that are not on disk.
    ///   - done: Called when all changes that existed at the call are on disk, or a disk has failed.
    package func persistAll(
        progress: @escaping @Sendable (UInt64) -> Void,
        _ done: @escaping @Sendable () -> Void
    ) {
        // Compaction and purges take turns with commits on the writer lanes.
        for bucket in buckets { bucket.disk?.stopMaintenance() }
        let isOver = Guarded(false)
        reportUnpersisted(until: isOver, progress)
        drainAll { [self] in
            isOver.withLock { $0 = true }
            for bucket in buckets { bucket.syncWrites.stop() }
            done()
        }
    }

    /// Ends the notification of all readers of changes, so that they can be closed quickly.
    package func endFeeds() {
        for bucket in buckets { bucket.traffic.end() }
    }

    /// The changes of all buckets that are not on disk.
    package var unpersistedCount: UInt64 {
        buckets.reduce(0) { $0 + $1.engine.unpersistedCount }
    }

    private func reportUnpersisted(
        until isOver: Guarded<Bool>,
        _ progress: @escaping @Sendable (UInt64) -> Void
    ) {
        lanes.nonIO.lane.post(after: 1_000_000_000) { [self] in
            guard !isOver.withLock({ $0 }) else { return }
            progress(unpersistedCount)
            reportUnpersisted(until: isOver, progress)
        }
    }

    /// Persists everything, closes all files cleanly, then calls `done` from any lane.
    ///
    /// Requires that no client is connected. Afterwards the lanes can be stopped.
    package func stop(_ done: @escaping @Sendable () -> Void) {
        stopHousekeeping()
        links?.stop()
        drainAll { [self] in closeAll(done) }
    }

    /// Closes all buckets; on several lanes, because a close waits for the disk and no client reads now.
    private func closeAll(_ done: @escaping @Sendable () -> Void) {
        let open = buckets.filter { $0.disk != nil }
        let workers = lanes.writers + lanes.readers
        let ended = afterCalls(open.count, done)
        for (number, bucket) in open.enumerated() {
            workers[number % workers.count].lane.post { [self] in
                close(bucket)
                ended()
            }
        }
    }

    /// Commits all changes that exist now, then calls `done` from any lane; also if a disk fails.
    private func drainAll(_ done: @escaping @Sendable () -> Void) {
        let flushers = buckets.flatMap { $0.disk?.flushers ?? [] }
        let drained = afterCalls(flushers.count, done)
        for flusher in flushers { flusher.drain(drained) }
    }

    /// Returns a function whose call number `count` calls `done`; calls `done` at once if `count` is 0.
    private func afterCalls(
        _ count: Int,
        _ done: @escaping @Sendable () -> Void
    ) -> @Sendable () -> Void {
        guard count > 0 else {
            done()
            return {}
        }
        let left = Guarded(count)
        return {
            let isLast = left.withLock { left in
                left -= 1
                return left == 0
            }
            if isLast { done() }
        }
    }

    /// Stops all lanes.
    ///
    /// Requires that `stop` has called `done`; must not be called on one of the lanes.
    package func stopLanes() { lanes.stop() }

    /// Marks a bucket's files as complete, if they are.
    private func close(_ bucket: OpenBucket) {
        let isPersisted = bucket.engine.all.allSatisfy { vBucket in
            vBucket.withCore { $0.persistedSeqno == $0.highSeqno }
        }
        // An unwritten record has the vBucket's earlier state: that it serves, or is intact. After
        // a clean stop it would be trusted.
        guard isPersisted, bucket.disk?.isWritten ?? true else {
            return environment.trace.error(
                "storage",
                bucket: bucket.name,
                "bucket \(bucket.name) is closed with unpersisted changes"
            )
        }
        do {
            try bucket.disk?.saveHeat(of: bucket.engine)
            try bucket.disk?.store.closeCleanly()
        } catch {
            environment.trace.error("storage", bucket: bucket.name, error.description)
        }
    }
}
