internal import Bytes
internal import Seams

/// One end of a connection: does to its handler what a reactor's socket does.
///
/// - While output waits nothing is read and the handler is not called.
/// - What it may hold of received bytes is decided by the same `ReceiveAllowance` as on Linux.
/// - The handler is called on its reactor only, and never after `closed`.
/// - What the handler said last arrives, unless the other side is reset meanwhile.
final class SimulatedConnection: ConnectionPort,
    @unchecked Sendable  // tidy:allow one thread, and a check for it
{
    enum Phase {
        /// No handler yet. Can become: open, gone.
        case opening
        /// Can become: finishing, lingering, gone.
        case open
        /// The handler said `close`; output is still waiting. Can become: lingering, gone.
        case finishing
        /// We have said all; what comes is thrown away. Can become: gone.
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
    /// How far apart the looks at a sender's progress are, as on Linux.
    private static let paceNanoseconds: UInt64 = 1_000_000_000
    /// How long we read on after our last word, as on Linux.
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
    /// Bytes that arrived and the reactor has not taken yet: the kernel's buffer.
    let arrived = ByteWriter(capacity: 16)
    /// Taken, and not consumed by the handler.
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
            memory: listener?.memory
        )
        outgoing = SimulatedStream(simulator: simulator)
    }

    var otherHost: SimulatedHost? { outgoing.target?.process.host }

    /// Before it nothing of ours arrives at the other end.
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

    /// Joins the two ends; the handler is made on the reactor.
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

    /// Nobody wants it any more on this side.
    func refuse() {
        phase = .gone
        outgoing.reset()
    }

    // MARK: Called by the stream that leads here

    func bytesCame(_ bytes: [UInt8]) {
        switch phase {
        case .gone:
            // The kernel of a machine that is up says that there is no such connection.
            if process.host.hasPower { outgoing.reset() }
        default:
            arrived.append(bytes)
            serveSoon()
        }
    }

    func endCame() {
        hasPeerEnded = true
        serveSoon()
    }

    func resetCame() {
        guard phase != .gone else { return }
        isReset = true
        serveSoon()
    }

    func roomCame() { serveSoon() }

    private func serveSoon() {
        guard !isServed, phase != .gone, phase != .opening else { return }
        isServed = true
        lane.post { [self] in
            isServed = false
            advance()
        }
    }

    // MARK: One step at a time

    private func advance() {
        guard phase != .gone else { return }
        if isReset { return end() }
        outgoing.sendBacklog()
        guard !outgoing.hasBacklog else { return }
        switch phase {
        case .opening, .gone: return
        case .open:
            if isDraining {
                isDraining = false
                handOver(isWake: false)
            } else if isWoken {
                isWoken = false
                isPaused = false
                handOver(isWake: true)
            } else if mayReceive {
                receive()
            }
        case .finishing: linger()
        case .lingering:
            arrived.removeAll()
            if hasPeerEnded { end() }
        }
        guard phase == .open, !outgoing.hasBacklog else { return }
        let isReadable = mayReceive && (arrived.count > 0 || hasPeerEnded)
        if isDraining || isWoken || isReadable { serveSoon() }
    }

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
        // Until a large frame whose length is known is whole there is nothing to say about it.
        let isLarge = allowance.needed > SimulatedConnection.receiveSizes.readBytes
        if isLarge, input.count < allowance.needed { return }
        handOver(isWake: false)
    }

    /// Another connection returned memory that this one waits for.
    private func roomWasGranted() {
        lane.post { [self] in
            allowance.update()
            if allowance.isTimed { watchPace() }
            advance()
        }
    }

    /// Closes the connection if its sender keeps memory and makes no progress.
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

    /// Calls the handler until it has had enough, sends what it said, and keeps what is left.
    private func handOver(isWake: Bool) {
        guard let handler else { return }
        let output = process.outputs[reactor]
        var isWake = isWake
        var (rounds, consumed) = (0, 0)
        var progress: ReceiveProgress
        repeat {
            output.removeAll()
            progress =
                isWake
                ? handler.wake(input.view, output: output)
                : handler.receive(input.view, output: output)
            require(
                progress.consumed >= 0 && progress.consumed <= input.count,
                "a handler can only consume what it was given"
            )
            require(
                progress.next != .drain || output.count > 0,
                "a handler that waits for its replies to go out must have made some"
            )
            input.removeFirst(progress.consumed)
            consumed += progress.consumed
            // The process may have died in the handler: then nobody hears it.
            guard !process.isDead, phase == .open else { return }
            if process.isFrozen { return finishLate(output.bytes, progress, consumed) }
            outgoing.send(output.view)
            isWake = false
            rounds += 1
        } while progress.next == .drain && !outgoing.hasBacklog && rounds < 8
        finish(progress, consumed)
    }

    /// The process was stopped while the handler ran.
    private func finishLate(_ said: [UInt8], _ progress: ReceiveProgress, _ consumed: Int) {
        process.sayLate { [self] in
            guard phase == .open else { return }
            said.withUnsafeBytes { bytes in
                process.host.saidLate?(ByteView(bytes))
                outgoing.send(ByteView(bytes))
            }
            finish(progress, consumed)
            serveSoon()
        }
    }

    private func finish(_ progress: ReceiveProgress, _ consumed: Int) {
        allowance.settle(count: input.count, consumed: consumed, needed: progress.needed)
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
        tellHandler()
        serveSoon()
        let time = simulator.queue.time
        time.add(
            at: time.now + SimulatedConnection.lingerNanoseconds,
            .happen { [weak self] in if self?.phase == .lingering { self?.end() } }
        )
    }

    /// The listener closes.
    func abandon() {
        let quiescence = process.quiescence
        quiescence.begin(reactor)
        end()
        quiescence.end(reactor)
    }

    /// Something between the two ends resets both.
    func cut() {
        let other = outgoing.target
        resetCame()
        other?.resetCame()
    }

    private func end() {
        guard phase != .gone else { return }
        let isUnread = arrived.count > 0 && phase != .lingering
        leave(isSilent: isReset, isUnread: isUnread)
        tellHandler()
    }

    /// The process died: its kernel ends the connection, or nobody does.
    func processDied(isSilent: Bool) {
        let told = handler
        handler = nil
        if phase != .gone { leave(isSilent: isSilent, isUnread: arrived.count > 0) }
        _ = told
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

    private func tellHandler() {
        let told = handler
        handler = nil
        told?.closed()
    }
}
