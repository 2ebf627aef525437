internal import Bytes
internal import Glibc
internal import Seams

/// What is ready to run in all of a world, one piece at a time, in an order that the seed chooses.
///
/// A lane is ready when it has work and is through with its last. Which of the ready lanes goes next
/// is drawn, so every interleaving that threads could have is some seed's.
///
/// - One thread: whoever comes from another is a bug that would make runs differ, and is stopped.
/// - A piece of work takes time of its lane: a little, what the disk made it wait, and what a fault
///   adds. Within the piece time stands still; what it posted is there for others at once.
final class RunQueue {
    let time = VirtualTime()
    /// Everything that happened, folded into one number: two runs are equal if these are.
    private(set) var digest: UInt64 = 0xcbf2_9ce4_8422_2325
    /// The lane whose work runs now.
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

    /// A piece of work runs, on such a lane.
    func isRunning(reactorOf process: SimulatedProcess) -> Bool {
        current.map { $0.process === process && $0.reactor != nil } ?? false
    }

    func checkThread() {
        require(
            pthread_equal(pthread_self(), thread) != 0,
            "a simulated world runs on one thread; something in it started another"
        )
    }

    func fold(_ value: UInt64) {
        digest = (digest ^ value) &* 0x0000_0100_0000_01b3
        digest ^= digest >> 29
    }

    /// What a piece of work waited.
    struct Stall {
        var usual: UInt64 = 0
        /// Because its disk was slow, which may end before the piece does.
        var slow: UInt64 = 0

        var all: UInt64 { usual + slow }
    }

    /// The work under way waits: for a disk, say; and longer, for one that is slow.
    func stall(_ nanoseconds: UInt64, slow: UInt64 = 0) {
        stalled.usual += nanoseconds
        stalled.slow += slow
    }

    // MARK: Lanes

    func nextLaneNumber() -> UInt64 {
        lanesMade += 1
        return lanesMade
    }

    /// The world ends: nothing that was to run does, and nothing is kept alive by it.
    func clear() {
        let dropped = ready
        ready = []
        time.clear()
        _ = dropped
    }

    /// A lane has work and is through with what it did before, or will be at `busyUntil`.
    ///
    /// - Returns: The event that it waits for, if it does.
    func schedule(_ lane: SimulatedLane) -> VirtualTime.Ticket? {
        if lane.busyUntil <= time.now {
            ready.append(lane)
            return nil
        }
        return time.add(at: lane.busyUntil, .serve(lane))
    }

    /// Runs one piece of work or lets one thing happen; false where nothing is due by `limit`.
    func step(by limit: UInt64) -> Bool {
        if !ready.isEmpty {
            // What happens at this very instant is part of the choice.
            while let event = time.next(by: time.now) { handle(event) }
            let index = ready.count == 1 ? 0 : Int(random.next() % UInt64(ready.count))
            ready.swapAt(index, ready.count - 1)
            let lane = ready.removeLast()
            stepsOfInstant += 1
            require(stepsOfInstant < 1_000_000, "work makes more work for ever")
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
            lane.waitIsOver()
            ready.append(lane)
        case .timer(let lane, let due, let work): lane.timerCame(due: due, work)
        case .happen(let body): body()
        }
    }

    private func run(_ lane: SimulatedLane) {
        guard let work = lane.takeWork() else { return }
        steps += 1
        fold(time.now)
        fold(lane.number)
        lane.finish(after: perform(lane, work))
    }

    /// Runs work as the lane's; what it took.
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
