internal import Bytes
internal import CLinux
internal import Glibc
internal import Seams
internal import Synchronization

/// A socket's owner, which a reactor notifies of readiness.
protocol ReadinessTarget: AnyObject {
    func ready(_ events: UInt32)
    /// The reactor stops: the target closes its socket.
    func abandon()
}

/// One thread that serves many connections: an event loop over epoll.
///
/// A turn handles requests of other threads, then ready sockets, then sleeps. Sockets are
/// registered once, edge-triggered, for all events: a batch of requests then costs one `recv`, one
/// `send` and its share of an `epoll_wait`, and the kernel never polls a served socket a second
/// time.
///
/// - Only the thread accesses the state, except `mailbox`.
/// - A connection with more work (a full read, further replies) is served again only after all
///   other ready connections.
/// - Posting writes to the eventfd only if the thread sleeps, once for any number of posts.
final class Reactor: Lane, @unchecked Sendable {  // tidy:allow one thread, and a locked mailbox
    /// Requests of other threads; accessed under `lock`.
    private struct Mailbox {
        var queue = WorkQueue()
        var connections: [SocketConnection] = []
        var isAsleep = false
        var isStopping = false
    }

    private struct Slot {
        var target: (any ReadinessTarget)?
        /// Distinguishes a late event of a closed socket from an event of the slot's next socket.
        var generation: UInt32 = 0
    }

    let index: Int
    let name: String
    let trace: any Trace
    let limits: ReactorLimits
    let input: UnsafeMutableRawPointer
    var output = ByteWriter(capacity: 256 << 10)
    /// Output of secured connections, sealed; grows when there is one.
    var sealed = ByteWriter(capacity: 16)
    /// The number of connections that are served here or assigned; read to assign new ones.
    let load = Atomic<Int>(0)

    private let quiescence: Quiescence
    private let epoll: Int32
    private let alarm: Int32
    private let lock = Lock()
    private var mailbox = Mailbox()
    private var slots: [Slot] = []
    private var freeSlots: [Int] = []
    /// Connections with more work, for the next turn.
    private var unfinished: [SocketConnection] = []
    /// Connections with a deadline, checked periodically: there are few, and usually none.
    private var timedConnections: [SocketConnection] = []
    private var nextDeadlineCheck: UInt64?
    private var closedListeners: Set<UInt64> = []
    /// The lines about clients that broke TLS.
    private var refusals = RefusalLog()
    private var isStopped = false
    private let thread = Guarded<SystemThread?>(nil)

    init(
        index: Int,
        limits: ReactorLimits,
        quiescence: Quiescence,
        trace: any Trace,
        name: String? = nil
    ) {
        self.index = index
        self.name = name ?? "reactor \(index)"
        self.limits = limits
        self.quiescence = quiescence
        self.trace = trace
        input = Memory.allocate(limits.receiveBytes)
        epoll = divan_epoll_create()
        alarm = divan_eventfd()
        precondition(epoll >= 0 && alarm >= 0, "no event loop: \(SystemError.text(errno))")
        // Edge-triggered: every write to the eventfd is an event, so its counter is never read.
        let code = divan_epoll_add(epoll, alarm, divan_event_in | divan_event_edge, .max)
        precondition(code == 0, "no event loop: \(SystemError.text(errno))")
        thread.withLock { $0 = SystemThread(self.name) { self.run() } }
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

    /// Posts work.
    ///
    /// - Returns: Whether the work will run; false if the reactor has stopped.
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

    /// Runs work at once on the reactor's thread; posts it from any other thread.
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

    /// Queues requests for a connection.
    func request(_ asked: SocketConnection.Requests, of connection: SocketConnection) {
        lock.acquire()
        if connection.requests.isEmpty && !mailbox.isStopping {
            mailbox.connections.append(connection)
        }
        connection.requests.formUnion(asked)
        releaseAndWake()
    }

    /// Runs posted work, closes all sockets, and waits for the end of the thread.
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

    /// Registers a socket.
    ///
    /// - Returns: Its slot; nil if the kernel has no memory left.
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

    /// Changes the events that a socket is watched for.
    func rewatch(_ descriptor: Int32, slot: Int, events: UInt32) {
        let token = UInt64(slots[slot].generation) << 32 | UInt64(slot)
        let code = divan_epoll_change(epoll, descriptor, events, token)
        precondition(code == 0, "a watched socket could not be changed: \(errno)")
    }

    /// Replaces the target of a watched socket.
    func setTarget(ofSlot slot: Int, _ target: any ReadinessTarget) { slots[slot].target = target }

    /// Closes a socket and frees its slot.
    func unwatch(_ descriptor: Int32, slot: Int) {
        Glibc.close(descriptor)
        slots[slot].target = nil
        slots[slot].generation &+= 1
        freeSlots.append(slot)
    }

    /// Queues a connection with more work; it is served after all other ready connections.
    func enqueue(_ connection: SocketConnection) { unfinished.append(connection) }

    /// Adds a connection to the periodic check of deadlines.
    func watchDeadline(of connection: SocketConnection) {
        timedConnections.append(connection)
        guard nextDeadlineCheck == nil else { return }
        nextDeadlineCheck = LinuxClock.waitingNanoseconds() + limits.deadlineCheckNanoseconds
    }

    func forEachTarget(_ body: (any ReadinessTarget) -> Void) {
        for slot in slots { slot.target.map(body) }
    }

    /// Logs why a client's secured connection ends; some lines of many.
    func logRefusal(of peer: SocketAddress, _ reason: String) {
        let now = LinuxClock.waitingNanoseconds()
        guard let line = refusals.line("closed \(peer): \(reason)", at: now) else { return }
        trace.warning("network", line)
    }

    /// Replaces a shared buffer that a connection keeps.
    func replace(_ kept: ByteWriter) {
        let new = ByteWriter(capacity: limits.receiveBytes)
        if kept === output { output = new } else { sealed = new }
    }

    func isClosed(listener: UInt64) -> Bool { closedListeners.contains(listener) }

    /// Makes the reactor refuse accepted connections of this listener that it does not serve yet.
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
            // The mailbox first: from here on posting needs no write to the eventfd.
            handleMailbox()
            serveUnfinished()
            for place in 0..<max(0, Int(count)) { dispatch(events[place]) }
            checkDeadlines()
        }
        closeAll()
        quiescence.end(index)
    }

    /// The timeout of `epoll_wait`: 0 if there is work, else the time to the next timer; -1 if
    /// there is no timer.
    private func sleepMilliseconds() -> Int32 {
        lock.acquire()
        defer { lock.release() }
        let hasWork = mailbox.queue.readyCount > 0 || !mailbox.connections.isEmpty
        if hasWork || mailbox.isStopping || !unfinished.isEmpty { return 0 }
        mailbox.isAsleep = true
        let deadlines = [mailbox.queue.nextDeadline(), nextDeadlineCheck].compactMap { $0 }
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

    private func serveUnfinished() {
        guard !unfinished.isEmpty else { return }
        let connections = unfinished
        unfinished.removeAll(keepingCapacity: true)
        for connection in connections { connection.resume() }
    }

    private func checkDeadlines() {
        guard let check = nextDeadlineCheck else { return }
        let now = LinuxClock.waitingNanoseconds()
        guard check <= now else { return }
        let connections = timedConnections
        timedConnections.removeAll(keepingCapacity: true)
        nextDeadlineCheck = nil
        for connection in connections where connection.isStillWatched(at: now) {
            watchDeadline(of: connection)
        }
    }

    private func handleMailbox() {
        lock.acquire()
        mailbox.isAsleep = false
        let isLastTime = mailbox.isStopping
        if !mailbox.connections.isEmpty {
            let asked = mailbox.connections.map { ($0, $0.removeRequests()) }
            mailbox.connections.removeAll(keepingCapacity: true)
            lock.release()
            for (connection, requests) in asked { connection.handle(requests) }
            lock.acquire()
        }
        // Work posted by this work runs in the next turn, unless this turn is the last.
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
        // Connections reference their reactor, so remaining references would keep both alive.
        unfinished = []
        timedConnections = []
        lock.acquire()
        let dropped = mailbox
        mailbox = Mailbox(isStopping: true)
        lock.release()
        for connection in dropped.connections { _ = connection.removeRequests() }
    }
}
