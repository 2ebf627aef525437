internal import Bytes
internal import Seams

/// A lane of a simulated process: work in line, served by the world's run queue.
///
/// - Work of a process that died is dropped, and so is what is posted to it.
/// - Of a process that was stopped (SIGSTOP) nothing runs; it goes on where it was.
final class SimulatedLane: Lane, @unchecked Sendable {  // tidy:allow one thread, and a check for it
    let name: String
    /// Told apart in the digest: by the order in which lanes were made.
    let number: UInt64
    let process: SimulatedProcess
    /// The reactor that this lane is, if it is one: its turns are what readers without locks need.
    let reactor: Int?
    private let queue: RunQueue
    private(set) var busyUntil: UInt64 = 0
    private var busySince: UInt64 = 0
    /// How much of the time between both is only a slow disk's.
    private var slow: UInt64 = 0
    /// What it waits for, while it is busy and has more to do.
    private var wait: VirtualTime.Ticket?
    /// Nanoseconds that a fault adds to each piece of work.
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

    /// Runs what is in line and drops the timers, at once, since there is no thread to wait for.
    func stop() {
        queue.checkThread()
        require(!isRunning, "lane \(name) cannot wait for its own end")
        guard !isStopped else { return }
        isStopped = true
        while !process.isDead, let next = popWork() { _ = queue.perform(self, next) }
        drop()
        process.forget(self)
    }

    // MARK: Called by the run queue

    func timerCame(due: UInt64, _ work: @escaping @Sendable () -> Void) {
        guard !isStopped, !process.isDead else { return }
        let clock = process.host.clock
        guard clock.hasReached(due) else {
            queue.time.add(at: clock.worldTime(of: due), .timer(self, due: due, work: work))
            return
        }
        self.work.append(work)
        schedule()
    }

    /// The next piece, if the process may run.
    func takeWork() -> (() -> Void)? {
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

    func waitIsOver() { wait = nil }

    /// The disk is faster from now on: so is what is left of the work under way.
    ///
    /// All time of a piece of work is reckoned when it begins; a disk that is well again would
    /// otherwise be slow for it still, for a minute where a whole start is one piece.
    func diskBecame(_ now: UInt64, insteadOf before: UInt64) {
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

    /// The process goes on after it was stopped.
    func resume() {
        isScheduled = false
        if head < work.count { schedule() }
    }

    /// Lets go of everything, as the end of a process does.
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

/// What a timer's handle needs to take the timer back.
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

/// Makes the lanes of one process.
struct SimulatedLanes: LaneFactory {
    let process: SimulatedProcess
    var reactorCount: Int { process.host.reactorCount }

    func makeLane(_ name: String, isPatient: Bool) -> any Lane {
        process.queue.checkThread()
        return process.makeLane(name)
    }
}
