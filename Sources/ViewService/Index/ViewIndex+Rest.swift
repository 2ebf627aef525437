internal import Bytes
internal import Indexing
internal import Persistence
internal import Scripting

/// Whether an index has nothing to do, so that its file can be closed; on the index's lane.
extension ViewIndex {
    /// Whether nothing is read, mapped, stored, copied or awaited, and nothing was read since the last tick.
    var isQuiet: Bool {
        guard !health.isStopped, health.failure == nil, health.runaway.cause == nil else {
            return false
        }
        let isBuilt =
            progress.table.isReady && progress.load == nil && !progress.hasOldRuns
            && progress.compaction == nil && !alarm.posted.contains(.slots)
        let isStored =
            pending.queue.count == 0 && pending.mapped.isEmpty && pending.removals.isEmpty
            && pending.completions.isEmpty && progress.trigger.isEmpty
        return isBuilt && isStored && !sources.reads.isActive && sources.reads.build == nil
            && progress.waiters.isEmpty && !alarm.checkpoints.isRunning && !file.isBeingRead
            && ready.withLock { $0.isEmpty }
    }

    /// Whether the index has every change that is visible now.
    var hasEveryChange: Bool {
        let served = Array(progress.served)
        let highs = dependencies.changes.highVisible(of: served, ofBucket: bucket)
        return highs.count == served.count
            && highs.allSatisfy { progress.table.has($0.key, $0.value) }
    }

    /// Continues the counts of an index that rested meanwhile; before the index is used.
    func resume(_ health: Health) { self.health = health }
}
