internal import Bytes
internal import Seams

/// A lane of a simulated process: a queue of work items that the world's run queue serves.
///
/// - Pending and newly posted work of a dead process is dropped.
/// - No work of a stopped process (SIGSTOP) runs until the process continues.
final class SimulatedLane: Lane, @unchecked Sendable {  // tidy:allow one thread, and a check for it
    let name: String
    /// Identifies the lane in the digest; counts lanes in order of creation.
    let number: UInt64
    let process: SimulatedProcess
    /// The reactor's index if this lane is a reactor: its turns delimit lock-free reads
    /// (`Quiescence`).
    let reactor: Int?
    private let queue: RunQueue
    private(set) var busyUntil: UInt64 = 0
    private var busySince: UInt64 = 0
    /// The part of the time between both that a slow disk causes.
    private var slow: UInt64 = 0
    /// The event at `busyUntil`, while the lane is busy and has more work.
    private var wait: VirtualTime.Ticket?
    /// Nanoseconds that a fault adds to each work item.
    var drag: UInt64 = 0
    @exclusivity(unchecked) private var work: [(@Sendable () -> Void)?] = []
    @exclusivity(unchecked) private var head = 0
    private var isScheduled = false
    private var isRunning = false
    private var isStopped = false

    init(_ name: String, process: SimulatedProcess, reactor: Int? = nil) {
        self.name = name
        self.process = process
        self.reactor = reactor
        queue = process.queue
        number = process.queue.nextLaneNumber()
    }

    // MARK: Lane

    func post(_ work: @escaping @Sendable () -> Void) {
        queue.checkThread()
        guard !isStopped, !process.isDead else { return }
        self.work.append(work)
        schedule()
    }

    @discardableResult
    func post(after nanoseconds: UInt64, _ work: @escaping @Sendable () -> Void) -> LaneTimer {
        queue.checkThread()
        guard !isStopped, !process.isDead else { return LaneTimer {} }
        let clock = process.host.clock
        let due = clock.monotonicNanoseconds() + nanoseconds
        let ticket = queue.time.add(
            at: clock.worldTime(of: due),
            .timer(self, due: due, work: work)
        )
        let cancelling = Cancelling(queue: queue, ticket: ticket)
        return LaneTimer { cancelling.cancel() }
    }

    /// Runs the pending work at once and drops the timers.
    func stop() {
        queue.checkThread()
        require(!isRunning, "lane \(name) is not stopped by its own work")
        guard !isStopped else { return }
        isStopped = true
        while !process.isDead, let next = popWork() { _ = queue.perform(self, next) }
        drop()
        process.remove(self)
    }

    // MARK: Called by the run queue

    func timerFired(due: UInt64, _ work: @escaping @Sendable () -> Void) {
        guard !isStopped, !process.isDead else { return }
        let clock = process.host.clock
        guard clock.hasReached(due) else {
            queue.time.add(at: clock.worldTime(of: due), .timer(self, due: due, work: work))
            return
        }
        self.work.append(work)
        schedule()
    }

    /// Removes and returns the next work item; nil if there is none or the process may not run.
    func nextWork() -> (() -> Void)? {
        guard !process.isDead else {
            drop()
            return nil
        }
        guard !process.isFrozen else {
            process.park(self)
            return nil
        }
        guard let next = popWork() else {
            isScheduled = false
            return nil
        }
        return next
    }

    func perform(_ work: () -> Void) {
        isRunning = true
        if let reactor, !process.isDead {
            let quiescence = process.quiescence
            quiescence.begin(reactor)
            work()
            quiescence.end(reactor)
        } else {
            work()
        }
        isRunning = false
    }

    func finish(after stall: RunQueue.Stall) {
        busySince = queue.time.now
        busyUntil = busySince + stall.all + drag
        slow = stall.slow
        isScheduled = false
        if process.isDead { return drop() }
        if head < work.count { schedule() }
    }

    func clearWait() { wait = nil }

    /// Shortens the rest of the running work item after the disk became faster.
    ///
    /// The whole time of a work item is computed at its start. Without this correction, the disk
    /// would stay slow for it after the fault ended: for a minute if a whole start is one item.
    func changeDiskSlowness(to now: UInt64, from before: UInt64) {
        let time = queue.time.now
        guard now < before, slow > 0, busyUntil > time else { return }
        let left = Double(busyUntil - time) / Double(busyUntil - busySince)
        let saved = UInt64(Double(slow) * left * Double(before - now) / Double(before))
        busyUntil -= min(saved, busyUntil - time)
        busySince = time
        slow = UInt64(Double(slow) * left) - min(saved, UInt64(Double(slow) * left))
        guard let wait else { return }
        queue.time.cancel(wait)
        self.wait = queue.schedule(self)
    }

    /// Reschedules the lane after its process continues.
    func resume() {
        isScheduled = false
        if head < work.count { schedule() }
    }

    /// Drops all pending work, as the end of a process does.
    func drop() {
        let dropped = work
        work = []
        head = 0
        _ = dropped
    }

    private func schedule() {
        guard !isScheduled, !isRunning else { return }
        isScheduled = true
        wait = queue.schedule(self)
    }

    private func popWork() -> (@Sendable () -> Void)? {
        guard head < work.count else { return nil }
        let next = work[head]
        work[head] = nil
        head += 1
        if head == work.count {
            work.removeAll(keepingCapacity: true)
            head = 0
        } else if head >= 1_024, head * 2 >= work.count {
            work.removeFirst(head)
            head = 0
        }
        return next
    }
}

/// Cancels a timer's event for its `LaneTimer`.
private final class Cancelling: @unchecked Sendable {  // tidy:allow one thread, and a check for it
    private weak var queue: RunQueue?
    private let ticket: VirtualTime.Ticket

    init(queue: RunQueue, ticket: VirtualTime.Ticket) {
        self.queue = queue
        self.ticket = ticket
    }

    func cancel() {
        guard let queue else { return }
        queue.checkThread()
        queue.time.cancel(ticket)
    }
}

/// Creates the lanes of one process.
struct SimulatedLaneFactory: LaneFactory {
    let process: SimulatedProcess
    var reactorCount: Int { process.host.reactorCount }

    func makeLane(_ name: String, isPatient: Bool) -> any Lane {
        process.queue.checkThread()
        return process.makeLane(name)
    }
}
