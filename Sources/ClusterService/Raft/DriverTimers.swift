internal import Consensus
internal import Seams

/// The timers of a driver.
struct DriverTimers {
    var tick: LaneTimer?
    var nextTick: UInt64 = 0
    var promises: LaneTimer?
    var promisesUntil: UInt64?
    var recovery: LaneTimer?

    mutating func cancel() {
        for timer in [tick, promises, recovery] { timer?.cancel() }
        (tick, promises, recovery) = (nil, nil, nil)
    }
}

extension RaftDriver {
    /// Whether time matters: a lone voter that leads sends no heartbeats and needs no timer.
    private var needsTicks: Bool {
        guard case .running = life else { return !proposals.isEmpty || !reads.isEmpty }
        let isAlone = raft.isLeader && raft.configuration.members == [settings.node]
        return !isAlone || !proposals.isEmpty || !reads.isEmpty || !changes.isEmpty
    }

    func armTick() {
        if case .stopped = life { return }
        guard timers.tick == nil, !disk.isInline, needsTicks else { return }
        let now = now
        timers.nextTick = max(now, timers.nextTick + settings.tickNanoseconds)
        // After a pause without ticks, a full tick from now.
        if timers.nextTick == now { timers.nextTick = now + settings.tickNanoseconds }
        timers.tick = lane.post(after: timers.nextTick - now) {
            self.timers.tick = nil
            self.tick()
            self.run()
        }
    }

    private func tick() {
        if case .stopped = life { return }
        enqueue(.tick(dice: UInt32(truncatingIfNeeded: environment.entropy.next() >> 32)))
        let now = now
        expireProposals(now)
        expireReads(now)
        expireChanges(now)
        watchSnapshots(now)
        keepCommit()
    }
}
