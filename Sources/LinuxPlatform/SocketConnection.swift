internal import Bytes
internal import CLinux
internal import Glibc
internal import Seams
internal import Synchronization

/// One accepted or opened TCP connection, served by one reactor.
///
/// A read goes straight from the reactor's shared buffer through the handler into the shared reply
/// buffer and out again. A connection has memory of its own only for what could not be finished:
/// input that is no whole frame, and output that the peer does not take.
///
/// - While output waits, nothing is read and the handler is not called: memory stays bounded.
/// - What it receives beyond its own bytes is the node's memory (`ReceiveAllowance`): while there is
///   none, the connection is not read.
/// - The handler is called on the reactor's thread only, and never after `closed`.
/// - Our last word arrives: after it we shut down our side and read on for a moment, since closing
///   a socket with unread input makes the kernel destroy what is under way.
final class SocketConnection: ConnectionPort, ReadinessTarget,
    @unchecked Sendable  // tidy:allow its state belongs to one thread, its requests to a lock
{
    /// What other threads ask for, collected under the reactor's lock.
    struct Requests: OptionSet {
        let rawValue: UInt8
        static let wake = Requests(rawValue: 1)
        static let close = Requests(rawValue: 2)
        /// Memory to receive into was granted.
        static let room = Requests(rawValue: 4)
    }

    static let events =
        divan_event_in | divan_event_out | divan_event_read_hang_up | divan_event_edge

    private enum Phase {
        /// Can become: finishing, lingering, gone.
        case open
        /// The handler said `close`; output is still waiting. Can become: lingering, gone.
        case finishing
        /// Our side is shut down; input is thrown away. Can become: gone.
        case lingering
        case gone
    }

    let peer: SocketAddress
    let local: SocketAddress
    /// The listener it came through; 0 where we opened it.
    let listener: UInt64
    var requests: Requests = []

    private let loop: Reactor
    private let descriptor: Int32
    private var slot = -1
    private var handler: (any ConnectionHandler)?
    private var phase = Phase.open
    private var input = InputBuffer()
    private var allowance: ReceiveAllowance
    private var backlog: ByteWriter?
    private var backlogSent = 0
    private var deadline: UInt64?
    private var isWatched = false
    private var isReadable = false
    private var hasPeerEnded = false
    private var isPaused = false
    private var isDraining = false
    private var isWoken = false
    private var isQueued = false

    init(_ socket: ConnectedSocket, loop: Reactor) {
        descriptor = socket.descriptor
        peer = socket.peer
        local = socket.local
        listener = socket.listener
        allowance = ReceiveAllowance(loop.limits.receiveSizes, memory: socket.memory)
        self.loop = loop
    }

    deinit { input.clear() }

    var reactor: Int { loop.index }

    func wake() { loop.request(.wake, of: self) }

    func close() { loop.request(.close, of: self) }

    // MARK: Called by the reactor

    func start(slot: Int, _ handler: any ConnectionHandler) {
        self.slot = slot
        self.handler = handler
    }

    func takeRequests() -> Requests {
        let taken = requests
        requests = []
        return taken
    }

    func handle(_ requests: Requests) {
        if requests.contains(.close) { return end() }
        if requests.contains(.room) {
            allowance.update()
            if allowance.isTimed { startWatching() }
        }
        if requests.contains(.wake) { isWoken = true }
        advance()
    }

    func ready(_ events: UInt32) {
        if events & (divan_event_error | divan_event_hang_up) != 0 { return end() }
        if events & divan_event_read_hang_up != 0 { hasPeerEnded = true }
        if events & (divan_event_in | divan_event_read_hang_up) != 0 { isReadable = true }
        if backlog != nil {
            guard events & divan_event_out != 0 else { return }
            sendBacklog()
        }
        advance()
    }

    func serveAgain() {
        isQueued = false
        advance()
    }

    func abandon() { end() }

    /// Closes the connection if its time is over; returns whether there is more to watch for.
    func isStillWatched(at now: UInt64) -> Bool {
        if let deadline, deadline <= now {
            if phase != .lingering {
                loop.trace.info("network", "dropped \(peer): it takes no replies")
            }
            end()
        } else if allowance.isStalled(at: now, isAwaited: isAwaitingInput) {
            let reason = "it stopped in the middle of a large frame"
            loop.trace.info("network", "dropped \(peer): \(reason)")
            end()
        }
        isWatched = phase != .gone && (deadline != nil || allowance.isTimed)
        return isWatched
    }

    private var isAwaitingInput: Bool {
        phase == .open && backlog == nil
            && !(isReadable || isPaused || isDraining || isWoken || isQueued)
    }

    // MARK: One step at a time

    /// Does the one thing that is due, and asks for another turn if there is more.
    private func advance() {
        guard backlog == nil else { return }
        switch phase {
        case .open:
            if isDraining {
                isDraining = false
                handOver(input.view, isShared: false, isWake: false)
            } else if isWoken {
                isWoken = false
                isPaused = false
                handOver(input.view, isShared: false, isWake: true)
            } else if mayReceive {
                receive()
            }
        case .finishing: linger()
        case .lingering: if isReadable { discard() }
        case .gone: return
        }
        guard backlog == nil, !isQueued else { return }
        let hasMore =
            phase == .open
            ? isDraining || isWoken || mayReceive : phase == .lingering && isReadable
        guard hasMore else { return }
        isQueued = true
        loop.serveAgain(self)
    }

    private var mayReceive: Bool { isReadable && !isPaused && !allowance.isWaiting }

    private func receive() {
        switch allowance.step(count: input.count, capacity: input.capacity) {
        case .readShared(let most): receiveShared(most)
        case .readOwn(let capacity, let most):
            if input.capacity != capacity { input.resize(to: capacity) }
            receiveOwn(most)
        case .claim(let bytes):
            let isGranted = allowance.claim(bytes, count: input.count) { [weak self] in
                guard let self else { return }
                loop.request(.room, of: self)
            }
            // Granted at once, it is read in its next turn.
            if isGranted { startWatching() }
        case .refuse:
            loop.trace.warning("network", "closed \(peer): it sent a frame beyond all bounds")
            end()
        }
    }

    private func receiveShared(_ most: Int) {
        let rest = input.count
        guard let count = take(into: loop.input + rest, most) else { return }
        Memory.copy(to: loop.input, from: input.view.start, count: rest)
        let view = ByteView(start: loop.input, count: rest + count)
        handOver(view, isShared: true, isWake: false)
    }

    private func receiveOwn(_ most: Int) {
        guard let place = input.free.baseAddress, let count = take(into: place, most)
        else { return }
        input.extend(by: count)
        // Until a frame whose length is known is whole there is nothing to say about it.
        if input.count < allowance.needed { return }
        handOver(input.view, isShared: false, isWake: false)
    }

    /// Receives once; nil where there was nothing or the connection ended.
    private func take(into place: UnsafeMutableRawPointer, _ room: Int) -> Int? {
        while true {
            let count = recv(descriptor, place, room, 0)
            if count > 0 {
                // A short read has emptied the socket: what comes later makes a new event. But for
                // the end of the stream there may have been one already.
                isReadable = count == room || hasPeerEnded
                allowance.received(count)
                return count
            }
            if count < 0 && errno == EINTR { continue }
            if count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) {
                isReadable = false
                return nil
            }
            end()
            return nil
        }
    }

    /// Calls the handler, sends what it said, and keeps what is left.
    ///
    /// Once: where it has more to say, others have their turn before.
    private func handOver(_ view: ByteView, isShared: Bool, isWake: Bool) {
        guard let handler else { return }
        let output = loop.output
        let progress =
            isWake ? handler.wake(view, output: output) : handler.receive(view, output: output)
        precondition(
            progress.consumed >= 0 && progress.consumed <= view.count,
            "a handler can only consume what it was given"
        )
        precondition(
            progress.next != .drain || output.count > 0,
            "a handler that waits for its replies to go out must have made some"
        )
        let rest = view.dropFirst(progress.consumed)
        guard send(output) else { return }
        allowance.settle(
            count: rest.count,
            consumed: progress.consumed,
            needed: progress.needed
        )
        keep(rest, isShared: isShared)
        switch progress.next {
        case .receive: break
        case .drain: isDraining = true
        case .pause: isPaused = true
        case .close:
            phase = .finishing
            if backlog == nil { linger() }
        }
    }

    private func keep(_ rest: ByteView, isShared: Bool) {
        if !isShared {
            input.removeFirst(input.count - rest.count)
        } else if rest.count > 0 {
            input.store(rest, capacity: allowance.capacity(for: rest.count))
        } else if input.capacity > 0 {
            input.clear()
        }
        if input.capacity > allowance.capacityMax { input.resize(to: input.count) }
        if allowance.isTimed { startWatching() }
    }

    // MARK: Output

    /// Sends what the handler appended; false where the connection ended.
    private func send(_ output: ByteWriter) -> Bool {
        guard output.count > 0 else { return true }
        guard let count = put(output.view) else {
            output.removeAll()
            return false
        }
        if count == output.count {
            output.removeAll(keepingAtMost: loop.limits.outputBytesKept)
            return true
        }
        let rest = output.view.dropFirst(count)
        if rest.count > loop.limits.receiveBytes {
            // Cheaper to give the buffer away than to copy megabytes.
            backlog = output
            backlogSent = count
            loop.output = ByteWriter(capacity: loop.limits.receiveBytes)
        } else {
            let own = ByteWriter(capacity: rest.count)
            own.append(rest)
            backlog = own
            backlogSent = 0
            output.removeAll(keepingAtMost: loop.limits.outputBytesKept)
        }
        countBacklog(1)
        watch(for: loop.limits.slowReaderNanoseconds)
        return true
    }

    /// Counts the memory of what waits for the client to read it, or, with -1, returns it.
    private func countBacklog(_ sign: Int) {
        guard let memory = allowance.memory, let backlog else { return }
        let bytes = backlog.capacity - loop.limits.ownInputBytes
        if bytes > 0 { memory.countReplies(sign * bytes) }
    }

    private func sendBacklog() {
        guard let waiting = backlog else { return }
        guard let count = put(waiting.view.dropFirst(backlogSent)) else { return }
        backlogSent += count
        if backlogSent == waiting.count {
            dropBacklog()
            deadline = nil
        } else if count > 0 {
            watch(for: loop.limits.slowReaderNanoseconds)
        }
    }

    private func dropBacklog() {
        countBacklog(-1)
        // Handlers tend to remember the writer they were given: its memory must not stay for that.
        backlog?.removeAll(keepingAtMost: 16)
        backlog = nil
        backlogSent = 0
    }

    /// Sends once; how much the kernel took, or nil where the connection ended.
    private func put(_ view: ByteView) -> Int? {
        while true {
            let count = Glibc.send(descriptor, view.start, view.count, Int32(MSG_NOSIGNAL))
            if count >= 0 { return count }
            if errno == EINTR { continue }
            if errno == EAGAIN || errno == EWOULDBLOCK { return 0 }
            end()
            return nil
        }
    }

    // MARK: The end

    private func watch(for nanoseconds: UInt64) {
        deadline = LinuxClock.waitingNanoseconds() + nanoseconds
        startWatching()
    }

    /// Has the loop look at the connection once in a while.
    private func startWatching() {
        guard !isWatched else { return }
        isWatched = true
        loop.watchDeadline(of: self)
    }

    private func linger() {
        phase = .lingering
        input.clear()
        allowance.end()
        shutdown(descriptor, Int32(SHUT_WR))
        tellHandler()
        watch(for: loop.limits.lingerNanoseconds)
        isReadable = true
    }

    private func discard() {
        _ = take(into: loop.input, loop.limits.receiveBytes)
    }

    private func end() {
        guard phase != .gone else { return }
        phase = .gone
        input.clear()
        allowance.end()
        dropBacklog()
        deadline = nil
        loop.load.subtract(1, ordering: .relaxed)
        loop.unwatch(descriptor, slot: slot)
        tellHandler()
    }

    private func tellHandler() {
        let told = handler
        handler = nil
        told?.closed()
    }
}
