internal import Bytes
internal import CLinux
internal import Glibc
internal import Seams
internal import Synchronization

/// One accepted or opened TCP connection, served by one reactor.
///
/// Input is received into the reactor's shared buffer, handled, and its replies are sent from the
/// shared reply buffer. A connection allocates memory only for incomplete frames of input and for
/// output that the peer does not read.
///
/// - While output waits, nothing is read and the handler is not called: memory stays bounded. Only a
///   `DuplexHandler` still gets input.
/// - Input beyond the connection's own bytes uses the node's shared memory (`ReceiveAllowance`);
///   while there is none, the connection is not read.
/// - The handler is called on the reactor's thread only, and never after `closed`.
/// - The last output reaches the peer: after it the sending side is shut down and input is
///   discarded for a moment, since closing a socket with unread input makes the kernel drop pending
///   output.
final class SocketConnection: ConnectionPort, ReadinessTarget,
    @unchecked Sendable  // tidy:allow its state belongs to one thread, its requests to a lock
{
    /// Requests of other threads, accessed under the reactor's lock.
    struct Requests: OptionSet {
        let rawValue: UInt8
        static let wake = Requests(rawValue: 1)
        static let close = Requests(rawValue: 2)
        /// Memory to receive was granted.
        static let memoryGranted = Requests(rawValue: 4)
    }

    static let events =
        divan_event_in | divan_event_out | divan_event_read_hang_up | divan_event_edge

    private enum Phase {
        /// Can become: finishing, lingering, gone.
        case open
        /// The handler returned `close`; output still waits. Can become: lingering, gone.
        case finishing
        /// The sending side is shut down; input is discarded. Can become: gone.
        case lingering
        /// The socket is closed.
        case gone
    }

    let peer: SocketAddress
    let local: SocketAddress
    /// The number of the listener that accepted the connection; 0 for an outgoing connection.
    let listener: UInt64
    var requests: Requests = []

    private let loop: Reactor
    private let descriptor: Int32
    /// Receives and seals if the connection is secured; nil if it is plain, and after its end.
    private var secure: (any SecureSocket)?
    let isSecured: Bool
    private var slot = -1
    private var handler: (any ConnectionHandler)?
    /// The handler, if it is one.
    private var duplex: (any DuplexHandler)?
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
        allowance = ReceiveAllowance(
            loop.limits.receiveSizes,
            memory: socket.memory,
            // Until its handler reports something else.
            isStranger: socket.memory != nil
        )
        self.loop = loop
        secure = socket.security?.makeSocket(socket.descriptor)
        isSecured = secure != nil
    }

    deinit { input.clear() }

    var reactor: Int { loop.index }

    func wake() { loop.request(.wake, of: self) }

    func close() { loop.request(.close, of: self) }

    // MARK: Called by the reactor

    func start(slot: Int, _ handler: any ConnectionHandler) {
        self.slot = slot
        self.handler = handler
        duplex = handler as? any DuplexHandler
    }

    /// Returns the collected requests and removes them; called under the reactor's lock.
    func removeRequests() -> Requests {
        let removed = requests
        requests = []
        return removed
    }

    func handle(_ requests: Requests) {
        if requests.contains(.close) { return end() }
        if requests.contains(.memoryGranted) {
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
        if backlog != nil, events & divan_event_out != 0 { sendBacklog() }
        advance()
    }

    /// Continues after the other connections had a turn.
    func resume() {
        isQueued = false
        advance()
    }

    func abandon() { end() }

    /// Closes the connection if a deadline has passed.
    ///
    /// - Returns: Whether the connection still has a deadline.
    func isStillWatched(at now: UInt64) -> Bool {
        if let deadline, deadline <= now {
            if phase != .lingering {
                loop.trace.info("network", "closed \(peer): it does not read its replies")
            }
            end()
        } else if allowance.isStalled(at: now, isAwaited: isAwaitingInput) {
            let reason = "it stopped sending in the middle of a large frame"
            loop.trace.info("network", "closed \(peer): \(reason)")
            end()
        }
        isWatched = phase != .gone && (deadline != nil || allowance.isTimed)
        return isWatched
    }

    private var isAwaitingInput: Bool {
        phase == .open && backlog == nil
            && !(isReadable || isPaused || isDraining || isWoken || isQueued)
    }

    // MARK: Steps

    /// Performs one step and queues the connection if more work remains.
    private func advance() {
        guard backlog == nil || (phase == .open && isDuplex) else { return }
        switch phase {
        case .open:
            if backlog != nil {
                if mayReceive { receive() }
            } else if isDraining {
                isDraining = false
                callHandler(input.view, isShared: false, isWake: false)
            } else if isWakeDue {
                isWoken = false
                isPaused = false
                callHandler(input.view, isShared: false, isWake: true)
            } else if mayReceive {
                receive()
            }
        case .finishing: linger()
        case .lingering: if isReadable { discard() }
        case .gone: return
        }
        guard !isQueued, backlog == nil || (phase == .open && isDuplex) else { return }
        let hasMore =
            phase == .open
            ? mayReceive || (backlog == nil && (isDraining || isWakeDue))
            : phase == .lingering && isReadable
        guard hasMore else { return }
        isQueued = true
        loop.enqueue(self)
    }

    private var isDuplex: Bool { duplex?.isDuplex ?? false }

    /// Whether the handler has to be woken now: nothing can be sent during the handshake.
    private var isWakeDue: Bool { isWoken && secure?.isOpen ?? true }

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
                loop.request(.memoryGranted, of: self)
            }
            // If the memory is granted at once, the connection is read in its next turn.
            if isGranted { startWatching() }
        case .refuse:
            loop.trace.warning("network", "closed \(peer): it sent a frame larger than the limit")
            end()
        }
    }

    private func receiveShared(_ most: Int) {
        let rest = input.count
        guard let count = receive(into: loop.input + rest, most) else { return }
        Memory.copy(to: loop.input, from: input.view.start, count: rest)
        let view = ByteView(start: loop.input, count: rest + count)
        callHandler(view, isShared: true, isWake: false)
    }

    private func receiveOwn(_ most: Int) {
        guard let place = input.free.baseAddress, let count = receive(into: place, most)
        else { return }
        input.extend(by: count)
        // The handler is not called before a frame of known length is complete.
        if input.count < allowance.needed { return }
        callHandler(input.view, isShared: false, isWake: false)
    }

    /// Receives once.
    ///
    /// - Returns: The number of bytes; nil if there were none or the connection ended.
    private func receive(into place: UnsafeMutableRawPointer, _ room: Int) -> Int? {
        guard let secure else { return receivePlain(into: place, room) }
        let (output, wasOpen) = (loop.sealed, secure.isOpen)
        let receipt = secure.receive(into: place, most: room, output: output)
        guard transmit(output) else { return nil }
        if !wasOpen, let certificate = secure.clientCertificate {
            handler?.authenticated(by: certificate)
        }
        switch receipt {
        case .content(let count, let hasMore):
            isReadable = hasMore || hasPeerEnded
            allowance.received(count)
            return count
        case .wait:
            isReadable = hasPeerEnded
        case .end(let reason):
            guard let reason else {
                end()
                return nil
            }
            loop.logRefusal(of: peer, reason)
            // The alert tells the client why.
            phase = .finishing
            if backlog == nil { linger() }
        }
        return nil
    }

    private func receivePlain(into place: UnsafeMutableRawPointer, _ room: Int) -> Int? {
        while true {
            let count = recv(descriptor, place, room, 0)
            if count > 0 {
                // A short read has emptied the socket, and later bytes cause a new event. The event
                // of the stream's end may have been delivered already.
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

    /// Calls the handler once, sends its output, and keeps the unconsumed input.
    ///
    /// If the handler has more output, the other connections have a turn first.
    private func callHandler(_ view: ByteView, isShared: Bool, isWake: Bool) {
        guard let handler else { return }
        let output = loop.output
        let isSending = backlog != nil
        let progress =
            if isSending, let duplex {
                duplex.receiveWhileSending(view, output: output)
            } else if isWake {
                handler.wake(view, output: output)
            } else {
                handler.receive(view, output: output)
            }
        precondition(
            progress.consumed >= 0 && progress.consumed <= view.count,
            "a handler cannot consume more than its input"
        )
        precondition(
            progress.next != .drain || output.count > 0 || isSending,
            "a handler that waits until its output is sent must have appended some"
        )
        let rest = view.dropFirst(progress.consumed)
        guard send(output) else { return }
        allowance.setStranger(progress.isStranger)
        allowance.chargeReceived(
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

    /// Sends the handler's output, sealed if the connection is secured.
    ///
    /// - Returns: False if the connection ended.
    private func send(_ output: ByteWriter) -> Bool {
        guard output.count > 0, let secure else { return transmit(output) }
        let sealed = loop.sealed
        let isSealed = secure.send(output.view, output: sealed)
        output.removeAll(keepingAtMost: loop.limits.outputBytesKept)
        guard transmit(sealed) else { return false }
        if !isSealed { end() }
        return isSealed
    }

    /// Sends bytes as they are; the unsent part becomes the backlog.
    ///
    /// - Returns: False if the connection ended.
    private func transmit(_ output: ByteWriter) -> Bool {
        guard output.count > 0 else { return true }
        if let backlog {
            countBacklog(-1)
            backlog.append(output.view)
            countBacklog(1)
            output.removeAll(keepingAtMost: loop.limits.outputBytesKept)
            return true
        }
        guard let count = sendOnce(output.view) else {
            output.removeAll()
            return false
        }
        if count == output.count {
            output.removeAll(keepingAtMost: loop.limits.outputBytesKept)
            return true
        }
        let rest = output.view.dropFirst(count)
        if rest.count > loop.limits.receiveBytes {
            // The connection keeps the buffer, since copying megabytes is more expensive.
            backlog = output
            backlogSent = count
            loop.replace(output)
        } else {
            let own = ByteWriter(capacity: rest.count)
            own.append(rest)
            backlog = own
            backlogSent = 0
            output.removeAll(keepingAtMost: loop.limits.outputBytesKept)
        }
        countBacklog(1)
        setDeadline(after: loop.limits.slowReaderNanoseconds)
        return true
    }

    /// Adds the backlog's memory to the node's unread replies, or with -1 subtracts it.
    private func countBacklog(_ sign: Int) {
        guard let memory = allowance.memory, let backlog else { return }
        let bytes = backlog.capacity - loop.limits.ownInputBytes
        if bytes > 0 { memory.countReplies(sign * bytes) }
    }

    private func sendBacklog() {
        guard let waiting = backlog else { return }
        guard let count = sendOnce(waiting.view.dropFirst(backlogSent)) else { return }
        backlogSent += count
        if backlogSent == waiting.count {
            dropBacklog()
            deadline = nil
        } else if count > 0 {
            setDeadline(after: loop.limits.slowReaderNanoseconds)
        }
    }

    private func dropBacklog() {
        countBacklog(-1)
        // A handler may keep a reference to the writer, so its memory is freed explicitly.
        backlog?.removeAll(keepingAtMost: 16)
        backlog = nil
        backlogSent = 0
    }

    /// Sends once.
    ///
    /// - Returns: The number of bytes that the kernel accepted; nil if the connection ended.
    private func sendOnce(_ view: ByteView) -> Int? {
        while true {
            let count = Glibc.send(descriptor, view.start, view.count, Int32(MSG_NOSIGNAL))
            if count >= 0 { return count }
            if errno == EINTR { continue }
            if errno == EAGAIN || errno == EWOULDBLOCK { return 0 }
            end()
            return nil
        }
    }

    // MARK: End of the connection

    private func setDeadline(after nanoseconds: UInt64) {
        deadline = LinuxClock.waitingNanoseconds() + nanoseconds
        startWatching()
    }

    /// Adds the connection to the reactor's periodic check of deadlines.
    private func startWatching() {
        guard !isWatched else { return }
        isWatched = true
        loop.watchDeadline(of: self)
    }

    private func linger() {
        phase = .lingering
        input.clear()
        allowance.end()
        sendEnd()
        guard phase == .lingering else { return }
        shutdown(descriptor, Int32(SHUT_WR))
        notifyHandler()
        setDeadline(after: loop.limits.lingerNanoseconds)
        isReadable = true
    }

    /// Sends the end of the content, by which the client can tell it from a lost connection.
    private func sendEnd() {
        guard let secure else { return }
        secure.sendEnd(output: loop.sealed)
        self.secure = nil
        _ = sendOnce(loop.sealed.view)
        loop.sealed.removeAll()
    }

    private func discard() {
        _ = receivePlain(into: loop.input, loop.limits.receiveBytes)
    }

    private func end() {
        guard phase != .gone else { return }
        phase = .gone
        secure = nil
        input.clear()
        allowance.end()
        dropBacklog()
        deadline = nil
        loop.load.subtract(1, ordering: .relaxed)
        loop.unwatch(descriptor, slot: slot)
        loop.limits.descriptors.closed(allowance.memory == nil ? .nodes : .clients)
        notifyHandler()
    }

    /// Calls the handler's `closed` once.
    private func notifyHandler() {
        let closed = handler
        handler = nil
        duplex = nil
        closed?.closed()
    }
}
