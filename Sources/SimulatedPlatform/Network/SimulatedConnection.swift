internal import Bytes
internal import Seams

/// One end of a connection: calls its handler as a socket of LinuxPlatform does.
///
/// - While output is pending, nothing is read and the handler is not called, unless it is a
///   `DuplexHandler`.
/// - The same `ReceiveAllowance` as on Linux limits the received bytes in memory.
/// - The handler is called only on its reactor, and never after `closed`.
/// - The handler's last output arrives, unless the connection is reset before.
final class SimulatedConnection: ConnectionPort,
    @unchecked Sendable  // tidy:allow one thread, and a check for it
{
    enum Phase {
        /// No handler yet. Can become: open, gone.
        case opening
        /// Can become: finishing, lingering, gone.
        case open
        /// The handler returned `close`; output is pending. Can become: lingering, gone.
        case finishing
        /// All output was sent; input is discarded. Can become: gone.
        case lingering
        case gone
    }

    /// The bounds that `ReactorLimits` has on Linux.
    static let receiveSizes = ReceiveSizes(
        readBytes: 256 << 10,
        ownBytes: 64 << 10,
        heldBytesMax: (30 << 20) + 4_096,
        stalledNanoseconds: 30_000_000_000
    )
    static let clientBytesMax = 64 << 20
    /// Interval between two checks of a sender's progress, as on Linux.
    private static let paceNanoseconds: UInt64 = 1_000_000_000
    /// How long input is read and discarded after the last output, as in LinuxPlatform.
    static let lingerNanoseconds: UInt64 = 2_000_000_000

    let peer: SocketAddress
    let local: SocketAddress
    let reactor: Int
    let process: SimulatedProcess
    let simulator: PacketSimulator
    private(set) weak var listener: SimulatedListener?
    let lane: SimulatedLane
    var phase = Phase.opening
    private var handler: (any ConnectionHandler)?
    /// Bytes that arrived and that the reactor has not read yet: the kernel's buffer.
    let arrived = ByteWriter(capacity: 16)
    /// Bytes that were read and that the handler has not consumed yet.
    private let input = ByteWriter(capacity: 16)
    private var allowance: ReceiveAllowance
    /// The stream to the other end.
    let outgoing: SimulatedStream
    private var hasPeerEnded = false
    private var isReset = false
    private var isPaused = false
    private var isDraining = false
    private var isWoken = false
    private var isServed = false

    init(
        ends: (local: SocketAddress, peer: SocketAddress),
        process: SimulatedProcess,
        reactor: Int,
        listener: SimulatedListener?,
        simulator: PacketSimulator
    ) {
        local = ends.local
        peer = ends.peer
        self.process = process
        self.reactor = reactor
        self.listener = listener
        self.simulator = simulator
        lane = process.reactors[reactor]
        allowance = ReceiveAllowance(
            SimulatedConnection.receiveSizes,
            memory: listener?.memory,
            isStranger: listener?.memory != nil
        )
        outgoing = SimulatedStream(simulator: simulator)
    }

    var otherHost: SimulatedHost? { outgoing.target?.process.host }

    /// The earliest time at which data of this end may arrive at the other end.
    var firstArrival: UInt64 {
        get { outgoing.lastArrival }
        set { outgoing.lastArrival = newValue }
    }

    // MARK: ConnectionPort

    func wake() {
        simulator.queue.checkThread()
        isWoken = true
        serveSoon()
    }

    func close() {
        simulator.queue.checkThread()
        guard phase != .gone else { return }
        lane.post { [self] in end() }
    }

    // MARK: Opening

    /// Joins the two ends; the handler is created on the reactor.
    func accept(
        from other: SimulatedConnection,
        _ makeHandler: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler
    ) {
        let (here, there) = (process.host, other.process.host)
        outgoing.lead(
            to: other,
            link: simulator.link(from: here, to: there),
            back: simulator.link(from: there, to: here)
        )
        other.outgoing.lead(
            to: self,
            link: simulator.link(from: there, to: here),
            back: simulator.link(from: here, to: there)
        )
        open(makeHandler)
    }

    func open(_ makeHandler: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler) {
        process.add(self)
        lane.post { [self] in
            guard phase == .opening else { return }
            phase = .open
            handler = makeHandler(self)
            advance()
        }
    }

    /// Resets the connection: the connecting process has timed out or died.
    func refuse() {
        phase = .gone
        outgoing.reset()
    }

    // MARK: Called by the incoming stream

    func bytesArrived(_ bytes: [UInt8]) {
        switch phase {
        case .gone:
            // The kernel of a running machine answers with a reset.
            if process.host.hasPower { outgoing.reset() }
        default:
            arrived.append(bytes)
            serveSoon()
        }
    }

    func endArrived() {
        hasPeerEnded = true
        serveSoon()
    }

    func resetArrived() {
        guard phase != .gone else { return }
        isReset = true
        serveSoon()
    }

    func roomAvailable() { serveSoon() }

    private func serveSoon() {
        guard !isServed, phase != .gone, phase != .opening else { return }
        isServed = true
        lane.post { [self] in
            isServed = false
            advance()
        }
    }

    // MARK: Serving

    private func advance() {
        guard phase != .gone else { return }
        if isReset { return end() }
        outgoing.sendBacklog()
        guard !outgoing.hasBacklog || (phase == .open && isDuplex) else { return }
        switch phase {
        case .opening, .gone: return
        case .open:
            if outgoing.hasBacklog {
                if mayReceive { receive() }
            } else if isDraining {
                isDraining = false
                callHandler(isWake: false)
            } else if isWoken {
                isWoken = false
                isPaused = false
                callHandler(isWake: true)
            } else if mayReceive {
                receive()
            }
        case .finishing: linger()
        case .lingering:
            arrived.removeAll()
            if hasPeerEnded { end() }
        }
        guard phase == .open, !outgoing.hasBacklog || isDuplex else { return }
        let isReadable = mayReceive && (arrived.count > 0 || hasPeerEnded)
        let isDue = !outgoing.hasBacklog && (isDraining || isWoken)
        if isDue || isReadable { serveSoon() }
    }

    private var isDuplex: Bool { (handler as? any DuplexHandler)?.isDuplex ?? false }

    private var mayReceive: Bool { !isPaused && !allowance.isWaiting }

    private func receive() {
        guard arrived.count > 0 else {
            if hasPeerEnded { end() }
            return
        }
        switch allowance.step(count: input.count, capacity: input.count) {
        case .readShared(let most): read(most)
        case .readOwn(_, let most): read(most)
        case .claim(let bytes):
            let isGranted = allowance.claim(bytes, count: input.count) { [weak self] in
                self?.roomWasGranted()
            }
            if isGranted { watchPace() }
        case .refuse: end()
        }
    }

    private func read(_ most: Int) {
        let count = min(most, arrived.count)
        input.append(arrived.view.slice(0, count))
        arrived.removeFirst(count)
        allowance.received(count)
        outgoing.target?.outgoing.roomOpened()
        // The handler is not called before a large frame of known length is complete.
        let isLarge = allowance.needed > SimulatedConnection.receiveSizes.readBytes
        if isLarge, input.count < allowance.needed { return }
        callHandler(isWake: false)
    }

    /// Another connection has released memory that this connection waits for.
    private func roomWasGranted() {
        lane.post { [self] in
            allowance.update()
            if allowance.isTimed { watchPace() }
            advance()
        }
    }

    /// Closes the connection if its sender occupies memory and makes no progress.
    private func watchPace() {
        guard !allowance.isTimerSet else { return }
        allowance.isTimerSet = true
        let time = simulator.queue.time
        time.add(
            at: time.now + SimulatedConnection.paceNanoseconds,
            .happen { [weak self] in self?.checkPace() }
        )
    }

    private func checkPace() {
        allowance.isTimerSet = false
        guard phase == .open, allowance.isTimed else { return }
        let isIdle = !isPaused && !isDraining && !isWoken && arrived.count == 0
        let isAwaited = isIdle && !outgoing.hasBacklog && !process.isFrozen
        if allowance.isStalled(at: simulator.queue.time.now, isAwaited: isAwaited) {
            return close()
        }
        watchPace()
    }

    /// Calls the handler, up to eight times while it asks to drain its output; sends the output and
    /// keeps the unconsumed input.
    private func callHandler(isWake: Bool) {
        guard let handler else { return }
        let output = process.outputs[reactor]
        var isWake = isWake
        var (rounds, consumed) = (0, 0)
        var progress: ReceiveProgress
        repeat {
            output.removeAll()
            let isSending = outgoing.hasBacklog
            progress =
                if isSending, let duplex = handler as? any DuplexHandler {
                    duplex.receiveWhileSending(input.view, output: output)
                } else if isWake {
                    handler.wake(input.view, output: output)
                } else {
                    handler.receive(input.view, output: output)
                }
            require(
                progress.consumed >= 0 && progress.consumed <= input.count,
                "a handler consumes at most its input"
            )
            require(
                progress.next != .drain || output.count > 0 || isSending,
                "a handler returns drain only with output"
            )
            input.removeFirst(progress.consumed)
            consumed += progress.consumed
            // If the process died in the handler, its output is not sent.
            guard !process.isDead, phase == .open else { return }
            if process.isFrozen {
                return deferUntilThaw(output.bytes, progress, consumed: consumed)
            }
            outgoing.send(output.view)
            isWake = false
            rounds += 1
        } while progress.next == .drain && !outgoing.hasBacklog && rounds < 8
        apply(progress, consumed)
    }

    /// Sends the output and applies the progress when the process continues after a stop inside the
    /// handler.
    private func deferUntilThaw(_ said: [UInt8], _ progress: ReceiveProgress, consumed: Int) {
        process.deferUntilThaw { [self] in
            guard phase == .open else { return }
            said.withUnsafeBytes { bytes in
                process.host.onDeferredOutput?(ByteView(bytes))
                outgoing.send(ByteView(bytes))
            }
            apply(progress, consumed)
            serveSoon()
        }
    }

    private func apply(_ progress: ReceiveProgress, _ consumed: Int) {
        allowance.setStranger(progress.isStranger)
        allowance.chargeReceived(count: input.count, consumed: consumed, needed: progress.needed)
        if allowance.isTimed { watchPace() }
        switch progress.next {
        case .receive: break
        case .drain: isDraining = true
        case .pause: isPaused = true
        case .close:
            phase = .finishing
            if !outgoing.hasBacklog { linger() }
        }
    }

    // MARK: The end

    private func linger() {
        phase = .lingering
        allowance.end()
        input.removeAll(keepingAtMost: 16)
        outgoing.end()
        notifyHandlerClosed()
        serveSoon()
        let time = simulator.queue.time
        time.add(
            at: time.now + SimulatedConnection.lingerNanoseconds,
            .happen { [weak self] in if self?.phase == .lingering { self?.end() } }
        )
    }

    /// Closes the connection at once, outside its reactor.
    func abandon() {
        let quiescence = process.quiescence
        quiescence.begin(reactor)
        end()
        quiescence.end(reactor)
    }

    /// Resets both ends, as a firewall on the path would.
    func cut() {
        let other = outgoing.target
        resetArrived()
        other?.resetArrived()
    }

    private func end() {
        guard phase != .gone else { return }
        let isUnread = arrived.count > 0 && phase != .lingering
        leave(isSilent: isReset, isUnread: isUnread)
        notifyHandlerClosed()
    }

    /// Ends the connection of a dead process: the kernel closes it, unless the power failed
    /// (`isSilent`).
    func processDied(isSilent: Bool) {
        let released = handler
        handler = nil
        if phase != .gone { leave(isSilent: isSilent, isUnread: arrived.count > 0) }
        _ = released
    }

    private func leave(isSilent: Bool, isUnread: Bool) {
        phase = .gone
        allowance.end()
        input.removeAll(keepingAtMost: 16)
        arrived.removeAll(keepingAtMost: 16)
        if !process.isDead {
            process.loads[reactor] -= 1
            process.remove(self)
        }
        outgoing.leave(isSilent: isSilent, isReset: isUnread)
    }

    private func notifyHandlerClosed() {
        let closing = handler
        handler = nil
        closing?.closed()
    }
}
