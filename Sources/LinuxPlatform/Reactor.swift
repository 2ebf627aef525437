internal import Bytes
internal import CLinux
internal import Glibc
internal import Seams
internal import Synchronization

/// Something whose readiness a reactor waits for.
protocol ReadinessTarget: AnyObject {
    func ready(_ events: UInt32)
    /// The reactor stops.
    func abandon()
}

/// One thread that serves many connections: an event loop over epoll.
///
/// A turn handles what is ready, then what others asked for, then sleeps. Sockets are registered
/// once, edge-triggered, for everything: a request batch then costs one `recv`, one `send` and its
/// share of an `epoll_wait`, and the kernel never polls a served socket a second time.
///
/// - Everything but `mailbox` belongs to the thread.
/// - A target that could go on (a full read, replies left to produce) goes behind all others.
/// - Posters write to the eventfd only when the thread sleeps, once however many they are.
final class Reactor: Lane, @unchecked Sendable {  // tidy:allow one thread, and a locked mailbox
    /// What other threads ask of the loop; only under `lock`.
    private struct Mailbox {
        var queue = WorkQueue()
        var connections: [SocketConnection] = []
        var isAsleep = false
        var isStopping = false
    }

    private struct Slot {
        var target: (any ReadinessTarget)?
        /// Tells a late event for a closed socket from one for the socket that took its place.
        var generation: UInt32 = 0
    }

    let index: Int
    let name: String
    let trace: any Trace
    let limits: ReactorLimits
    let input: UnsafeMutableRawPointer
    var output = ByteWriter(capacity: 256 << 10)
    /// How many connections are here or on their way; read by those who place new ones.
    let load = Atomic<Int>(0)

    private let quiescence: Quiescence
    private let epoll: Int32
    private let alarm: Int32
    private let lock = Lock()
    private var mailbox = Mailbox()
    private var slots: [Slot] = []
    private var freeSlots: [Int] = []
    private var again: [SocketConnection] = []
    /// Connections with a deadline, looked at once in a while: there are few, and seldom any.
    private var overdue: [SocketConnection] = []
    private var overdueCheck: UInt64?
    private var closedListeners: Set<UInt64> = []
    private var isStopped = false
    private let thread = Guarded<SystemThread?>(nil)

    init(index: Int, limits: ReactorLimits, quiescence: Quiescence, trace: any Trace) {
        self.index = index
        self.name = "reactor \(index)"
        self.limits = limits
        self.quiescence = quiescence
        self.trace = trace
        input = Memory.allocate(limits.receiveBytes)
        epoll = divan_epoll_create()
        alarm = divan_eventfd()
        precondition(epoll >= 0 && alarm >= 0, "no event loop: \(SystemError.text(errno))")
        // Edge-triggered: every write is an event, so the counter need never be read back.
        let code = divan_epoll_add(epoll, alarm, divan_event_in | divan_event_edge, .max)
        precondition(code == 0, "no event loop: \(SystemError.text(errno))")
        thread.withLock { $0 = SystemThread(name) { self.run() } }
    }

    deinit {
        Glibc.close(epoll)
        Glibc.close(alarm)
        lock.destroy()
        Memory.free(input)
    }

    var isCurrent: Bool { thread.withLock { $0?.isCurrent ?? false } }

    // MARK: Called from any thread

    func post(_ work: @escaping @Sendable () -> Void) { _ = postIfRunning(work) }

    /// Posts work; false where the reactor has stopped and the work will never run.
    func postIfRunning(_ work: @escaping @Sendable () -> Void) -> Bool {
        lock.acquire()
        guard !mailbox.isStopping else {
            lock.release()
            return false
        }
        mailbox.queue.post(work)
        releaseAndWake()
        return true
    }

    /// Runs work now where this is the reactor's thread, and posts it elsewhere.
    func runOrPost(_ work: @escaping @Sendable () -> Void) {
        if isCurrent { work() } else { post(work) }
    }

    @discardableResult
    func post(after nanoseconds: UInt64, _ work: @escaping @Sendable () -> Void) -> LaneTimer {
        let deadline = LinuxClock.waitingNanoseconds() + nanoseconds
        lock.acquire()
        guard !mailbox.isStopping else {
            lock.release()
            return LaneTimer {}
        }
        let number = mailbox.queue.post(at: deadline, work)
        releaseAndWake()
        return LaneTimer { [weak self] in
            self?.lock.withLock { self?.mailbox.queue.cancel(number) }
        }
    }

    /// Has the loop look at what was asked of a connection.
    func request(_ asked: SocketConnection.Requests, of connection: SocketConnection) {
        lock.acquire()
        if connection.requests.isEmpty && !mailbox.isStopping {
            mailbox.connections.append(connection)
        }
        connection.requests.formUnion(asked)
        releaseAndWake()
    }

    /// Runs what was posted, closes everything, and waits for the end of the thread.
    func stop() {
        lock.acquire()
        mailbox.isStopping = true
        releaseAndWake()
        let joining = thread.withLock { thread in
            let joining = thread
            thread = nil
            return joining
        }
        joining?.join()
    }

    private func releaseAndWake() {
        let mustWake = mailbox.isAsleep
        mailbox.isAsleep = false
        lock.release()
        guard mustWake else { return }
        var one: UInt64 = 1
        _ = write(alarm, &one, MemoryLayout<UInt64>.size)
    }

    // MARK: Called by targets, on the thread

    /// Watches a socket from now on; returns its slot, or nil where the kernel has no memory left.
    func watch(_ descriptor: Int32, events: UInt32, by target: any ReadinessTarget) -> Int? {
        let slot = freeSlots.popLast() ?? slots.count
        if slot == slots.count { slots.append(Slot()) }
        let token = UInt64(slots[slot].generation) << 32 | UInt64(slot)
        guard divan_epoll_add(epoll, descriptor, events, token) == 0 else {
            freeSlots.append(slot)
            return nil
        }
        slots[slot].target = target
        return slot
    }

    /// Changes what a socket is watched for.
    func rewatch(_ descriptor: Int32, slot: Int, events: UInt32) {
        let token = UInt64(slots[slot].generation) << 32 | UInt64(slot)
        let code = divan_epoll_change(epoll, descriptor, events, token)
        precondition(code == 0, "a watched socket could not be changed: \(errno)")
    }

    /// Hands a watched socket from one target to the next.
    func pass(slot: Int, to target: any ReadinessTarget) { slots[slot].target = target }

    /// Closes a socket and forgets its slot.
    func unwatch(_ descriptor: Int32, slot: Int) {
        Glibc.close(descriptor)
        slots[slot].target = nil
        slots[slot].generation &+= 1
        freeSlots.append(slot)
    }

    /// Comes back to the connection after all others had their turn.
    func serveAgain(_ connection: SocketConnection) { again.append(connection) }

    /// Looks after a connection that may not stay as it is forever.
    func watchDeadline(of connection: SocketConnection) {
        overdue.append(connection)
        guard overdueCheck == nil else { return }
        overdueCheck = LinuxClock.waitingNanoseconds() + limits.deadlinePrecision
    }

    func forEachTarget(_ body: (any ReadinessTarget) -> Void) {
        for slot in slots { slot.target.map(body) }
    }

    func isClosed(listener: UInt64) -> Bool { closedListeners.contains(listener) }

    /// Connections of this listener that are still on their way here are refused.
    func markClosed(listener: UInt64) { closedListeners.insert(listener) }

    // MARK: The loop

    private func run() {
        let capacity = 512
        let events = UnsafeMutablePointer<divan_event>.allocate(capacity: capacity)
        defer { events.deallocate() }
        quiescence.begin(index)
        while !isStopped {
            let timeout = sleepMilliseconds()
            quiescence.end(index)
            let count = divan_epoll_wait(epoll, events, Int32(capacity), timeout)
            quiescence.begin(index)
            precondition(count >= 0 || errno == EINTR, "epoll failed: \(SystemError.text(errno))")
            // Mail first: from here on nobody needs to ring the alarm.
            handleMail()
            serveAgainQueue()
            for place in 0..<max(0, Int(count)) { dispatch(events[place]) }
            checkOverdue()
        }
        closeAll()
        quiescence.end(index)
    }

    /// How long the turn may sleep: not at all, until the next timer, or until something happens.
    private func sleepMilliseconds() -> Int32 {
        lock.acquire()
        defer { lock.release() }
        let hasMail = mailbox.queue.readyCount > 0 || !mailbox.connections.isEmpty
        if hasMail || mailbox.isStopping || !again.isEmpty { return 0 }
        mailbox.isAsleep = true
        let deadlines = [mailbox.queue.nextDeadline(), overdueCheck].compactMap { $0 }
        guard let deadline = deadlines.min() else { return -1 }
        let now = LinuxClock.waitingNanoseconds()
        guard deadline > now else { return 0 }
        return Int32(clamping: (deadline - now + 999_999) / 1_000_000)
    }

    private func dispatch(_ event: divan_event) {
        let token = event.token
        guard token != .max else { return }
        let slot = slots[Int(truncatingIfNeeded: token & 0xffff_ffff)]
        guard slot.generation == UInt32(token >> 32) else { return }
        slot.target?.ready(event.events)
    }

    private func serveAgainQueue() {
        guard !again.isEmpty else { return }
        let connections = again
        again.removeAll(keepingCapacity: true)
        for connection in connections { connection.serveAgain() }
    }

    private func checkOverdue() {
        guard let check = overdueCheck else { return }
        let now = LinuxClock.waitingNanoseconds()
        guard check <= now else { return }
        let connections = overdue
        overdue.removeAll(keepingCapacity: true)
        overdueCheck = nil
        for connection in connections where connection.isStillWatched(at: now) {
            watchDeadline(of: connection)
        }
    }

    private func handleMail() {
        lock.acquire()
        mailbox.isAsleep = false
        let isLastTime = mailbox.isStopping
        if !mailbox.connections.isEmpty {
            let asked = mailbox.connections.map { ($0, $0.takeRequests()) }
            mailbox.connections.removeAll(keepingCapacity: true)
            lock.release()
            for (connection, requests) in asked { connection.handle(requests) }
            lock.acquire()
        }
        // What the pieces post in turn waits for the next turn, unless there is none.
        var left = isLastTime ? Int.max : mailbox.queue.readyCount + 64
        while left > 0, let work = mailbox.queue.next(now: LinuxClock.waitingNanoseconds()) {
            lock.release()
            work()
            lock.acquire()
            left -= 1
        }
        lock.release()
        isStopped = isLastTime
    }

    private func closeAll() {
        for slot in slots { slot.target?.abandon() }
        // Connections know their reactor: whatever still held one would keep both for ever.
        again = []
        overdue = []
        lock.acquire()
        let dropped = mailbox
        mailbox = Mailbox(isStopping: true)
        lock.release()
        for connection in dropped.connections { _ = connection.takeRequests() }
    }
}
