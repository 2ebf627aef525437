internal import Indexing
internal import Persistence
internal import Seams

/// Copying the write-ahead log into the index's file.
extension ViewIndex {
    /// Copies the write-ahead log if it has become large.
    func checkpointIfLarge() {
        if alarm.checkpoints.committed(walPages: file.walPages) { checkpoint() }
    }

    /// Copies everything that is in the write-ahead log now.
    func requestCheckpoint() {
        if alarm.checkpoints.request() { checkpoint() }
    }

    /// Copies the write-ahead log on another lane: a sync takes longer than a commit.
    private func checkpoint() {
        let (file, lane) = (file, dependencies.lane)
        dependencies.checkpoints.post { [weak self] in
            var failure: StorageError?
            do throws(StorageError) {
                _ = try file.checkpoint()
            } catch {
                failure = error
            }
            let error = failure
            lane.post { [weak self] in self?.endCheckpoint(error) }
        }
    }

    private func endCheckpoint(_ error: StorageError?) {
        let heldCommits = alarm.checkpoints.holdsCommits
        let continues: Bool
        if error == nil {
            continues = alarm.checkpoints.ended()
        } else {
            alarm.checkpoints.failed()
            continues = false
        }
        guard !health.isStopped, health.failure == nil else { return }
        if let error { handle(error) }
        if continues { checkpoint() }
        if heldCommits, !alarm.checkpoints.holdsCommits { resumeCommits() }
    }

    /// Posts the steps that have ended because commits were held, and commits what is due.
    private func resumeCommits() {
        guard health.failure == nil else { return }
        for work in SteppedWork.allCases { post(work) }
        advance()
    }
}
