internal import Indexing
internal import Seams

/// Work of an index in steps, which the lane does one at a time between other work.
enum SteppedWork: CaseIterable {
    case compaction
    case slots
    case load
}

extension ViewIndex {
    /// Posts the next step to the lane, unless one is posted.
    func post(_ work: SteppedWork, after nanoseconds: UInt64 = 0) {
        guard has(work), alarm.posted.insert(work).inserted else { return }
        dependencies.lane.post(after: nanoseconds) { [weak self] in self?.step(work) }
    }

    private func has(_ work: SteppedWork) -> Bool {
        switch work {
        case .compaction: progress.compaction != nil
        case .slots: true
        case .load: progress.load?.merge != nil
        }
    }

    private func step(_ work: SteppedWork) {
        alarm.posted.remove(work)
        guard !health.isStopped, health.failure == nil else { return }
        // The end of the checkpoint posts the next step.
        guard !alarm.checkpoints.holdsCommits else { return }
        let now = now
        guard now >= alarm.pausedUntil else { return post(work, after: alarm.pausedUntil - now) }
        switch work {
        case .compaction: stepCompaction()
        case .slots: stepSlots()
        case .load: stepLoad()
        }
    }
}
