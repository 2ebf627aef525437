internal import Bytes
internal import Glibc
internal import Seams

/// Runs the work items of all lanes of a world, one at a time, in an order chosen by the seed.
///
/// A lane is ready if it has work and its last work item is finished. The next lane is drawn from
/// the ready ones, so every interleaving that threads could have occurs under some seed.
///
/// - Single-threaded: a call from another thread would make runs differ, so it ends the process.
/// - A work item occupies its lane for a short time, plus its disk time, plus the delay of a fault.
///   Within the item time does not advance; work that it posts is visible to other lanes at once.
final class RunQueue {
    let time = VirtualTime()
    /// A hash of all events: two runs are equal if their digests are.
    private(set) var digest: UInt64 = 0xcbf2_9ce4_8422_2325
    /// The lane whose work item is running; nil between work items.
    private(set) var current: SimulatedLane?
    private(set) var steps: UInt64 = 0
    private var random: SeededRandom
    private var ready: [SimulatedLane] = []
    private var stalled = Stall()
    private var stepsOfInstant = 0
    private var lanesMade: UInt64 = 0
    private let thread = pthread_self()

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
    }

    /// Whether a work item of one of the process's reactors is running.
    func isRunning(reactorOf process: SimulatedProcess) -> Bool {
        current.map { $0.process === process && $0.reactor != nil } ?? false
    }

    func checkThread() {
        require(
            pthread_equal(pthread_self(), thread) != 0,
            "a simulated world was called from another thread"
        )
    }

    func fold(_ value: UInt64) {
        digest = (digest ^ value) &* 0x0000_0100_0000_01b3
        digest ^= digest >> 29
    }

    /// The time that a work item takes, in nanoseconds.
    struct Stall {
        var usual: UInt64 = 0
        /// The part caused by a slow disk; the fault may end before the work item does.
        var slow: UInt64 = 0

        var all: UInt64 { usual + slow }
    }

    /// Adds waiting time to the running work item.
    func stall(_ nanoseconds: UInt64, slow: UInt64 = 0) {
        stalled.usual += nanoseconds
        stalled.slow += slow
    }

    // MARK: Lanes

    func nextLaneNumber() -> UInt64 {
        lanesMade += 1
        return lanesMade
    }

    /// Drops all pending work and events at the world's end.
    func clear() {
        let dropped = ready
        ready = []
        time.clear()
        _ = dropped
    }

    /// Schedules a lane that has work: now, or at its `busyUntil`.
    ///
    /// - Returns: The event at `busyUntil`; nil if the lane is ready now.
    func schedule(_ lane: SimulatedLane) -> VirtualTime.Ticket? {
        if lane.busyUntil <= time.now {
            ready.append(lane)
            return nil
        }
        return time.add(at: lane.busyUntil, .serve(lane))
    }

    /// Runs one work item or one event; false if nothing is due by `limit`.
    func step(by limit: UInt64) -> Bool {
        if !ready.isEmpty {
            // Events at this instant may make more lanes ready, which take part in the draw.
            while let event = time.next(by: time.now) { handle(event) }
            let index = ready.count == 1 ? 0 : Int(random.next() % UInt64(ready.count))
            ready.swapAt(index, ready.count - 1)
            let lane = ready.removeLast()
            stepsOfInstant += 1
            require(stepsOfInstant < 1_000_000, "lanes ran 1 000 000 work items at one instant")
            run(lane)
            return true
        }
        let before = time.now
        guard let event = time.next(by: limit) else { return false }
        if time.now != before { stepsOfInstant = 0 }
        handle(event)
        return true
    }

    private func handle(_ event: VirtualTime.Event) {
        switch event {
        case .serve(let lane):
            lane.clearWait()
            ready.append(lane)
        case .timer(let lane, let due, let work): lane.timerFired(due: due, work)
        case .happen(let body): body()
        }
    }

    private func run(_ lane: SimulatedLane) {
        guard let work = lane.nextWork() else { return }
        steps += 1
        fold(time.now)
        fold(lane.number)
        lane.finish(after: perform(lane, work))
    }

    /// Runs a work item on the lane; returns the time it takes.
    func perform(_ lane: SimulatedLane, _ work: () -> Void) -> Stall {
        let (before, stalledBefore) = (current, stalled)
        current = lane
        stalled = Stall()
        lane.perform(work)
        var cost = stalled
        cost.usual += 500 + random.next() % 4_096
        current = before
        stalled = stalledBefore
        return cost
    }
}
