internal import Bytes
internal import Seams

/// Regular checks of all indexes: unused memory and compaction.
extension IndexService {
    /// Checks after a while, and again after that, whether an index is idle or is to be compacted.
    func scheduleChecks() {
        lanes.files.post(after: settings.checkNanoseconds) { [weak self] in
            guard let self, !newest.withLock({ $0.isStopped }) else { return }
            // A report may be missing, of an index that is closed meanwhile.
            scheduleChecks()
            freeIdleIndexes()
            resting.returnMemory()
            report { [weak self] in self?.compactNext(of: $0) }
        }
    }

    /// Frees what indexes keep in memory for queries, where there was none for a while.
    private func freeIdleIndexes() {
        let now = environment.time.monotonicNanoseconds()
        for running in keeper.running { running.index?.freeIfIdle(now) }
    }
}
