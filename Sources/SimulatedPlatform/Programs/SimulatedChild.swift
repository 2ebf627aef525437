internal import Bytes
internal import Seams

/// One simulated child process: the program, and the bytes and lines between it and the node.
///
/// It behaves as `LinuxChild` does: sends are all or nothing, at most one call of the handler is
/// posted, and `ended` is the last one. A program runs in an event of the world, not on a lane: it
/// is another process, which also runs while the node is stopped.
final class SimulatedChild: ChildProcess,
    @unchecked Sendable  // tidy:allow one thread, and a check for it
{
    /// The output and events collected for the next call of the handler.
    private struct Delivery {
        var bytes: [UInt8] = []
        var lines: [String] = []
        var isDrained = false
        var isClosed = false
        var end: ChildEnd?
        var isPosted = false
    }

    private enum Phase {
        /// Can become: running, ended.
        case starting
        case running
        /// The channel is closed. Can become: ended.
        case closed
        case ended
    }

    /// The bytes that the node sent.
    private struct Inbound {
        /// Sent and not consumed by the program.
        var waiting = 0
        var lastArrival: UInt64 = 0
        /// A `send` was refused since all bytes were consumed.
        var isFull = false
        /// Arrived and not consumed.
        let arrived = ByteWriter(capacity: 16)
    }

    let process: SimulatedProcess
    private let settings: ChildProgram
    private let simulator: ProgramSimulator
    private let lane: any Lane
    private var handler: (any ChildHandler)?
    private var phase = Phase.starting
    private var program: (any SimulatedProgram, ProgramConsole)?
    private var inbound = Inbound()
    /// When the program's last effect arrives at the node.
    private var lastEffect: UInt64 = 0
    private var endOfNextOutput: ChildEnd?
    private var delivery = Delivery()
    /// Bytes that the handler has not consumed.
    private let input = ByteWriter(capacity: 16)

    init(
        _ settings: ChildProgram,
        process: SimulatedProcess,
        simulator: ProgramSimulator,
        lane: any Lane,
        _ handler: any ChildHandler
    ) {
        self.settings = settings
        self.process = process
        self.simulator = simulator
        self.lane = lane
        self.handler = handler
    }

    private var time: VirtualTime { simulator.queue.time }

    // MARK: ChildProcess

    var residentBytes: UInt64? {
        simulator.queue.checkThread()
        return phase == .ended ? nil : program?.1.residentBytes
    }

    func send(_ bytes: ByteView) -> ChildSendOutcome {
        simulator.queue.checkThread()
        guard !process.isDead, phase == .starting || phase == .running else { return .closed }
        guard inbound.waiting + bytes.count <= settings.outputBytesMax else {
            inbound.isFull = true
            return .full
        }
        inbound.waiting += bytes.count
        let copy = bytes.bytes
        effect { [weak self] in self?.transmit(copy) }
        return .accepted
    }

    func kill() {
        simulator.queue.checkThread()
        guard !process.isDead, phase != .ended else { return }
        effect { [weak self] in self?.end(.signalled(9)) }
    }

    /// Lets something happen now, or when the node continues if it was stopped in this turn.
    private func effect(_ body: @escaping () -> Void) {
        if process.isFrozen { process.deferUntilThaw(body) } else { body() }
    }

    // MARK: The life of the child

    /// Starts the program within 5 to 20 ms; a missing one fails sooner.
    func start() {
        simulator.add(self)
        guard let start = simulator.programs[settings.name] else {
            let description =
                "cannot start \(settings.name): there is no such program; install it beside the "
                + "running program"
            let error = ChildError(code: .missing, description: description)
            return after(500_000 + simulator.draw() % 1_000_000) { $0.end(.notStarted(error)) }
        }
        after(5_000_000 + simulator.draw() % 15_000_000) { child in
            guard child.phase == .starting else { return }
            child.phase = .running
            let console = ProgramConsole(child)
            child.lastEffect = child.time.now
            child.program = (start(console, child.settings.arguments), console)
            child.callProgram()
        }
    }

    /// Ends the child: what has arrived is delivered before, what is under way is lost.
    func end(_ end: ChildEnd) {
        guard phase != .ended else { return }
        phase = .ended
        program?.1.end()
        program = nil
        inbound.arrived.removeAll(keepingAtMost: 16)
        simulator.remove(self)
        deliver { $0.end = end }
    }

    /// Ends the child at the next bytes that it sends, of which only a part arrives.
    func endInNextOutput(_ end: ChildEnd) { endOfNextOutput = end }

    /// The node's process has ended: the child ends with it and is never heard of again.
    func parentDied() {
        phase = .ended
        program?.1.end()
        program = nil
        handler = nil
        delivery = Delivery()
    }

    // MARK: Bytes for the program

    private func transmit(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let piece = rest.prefix(cut(rest.count))
            rest = rest.dropFirst(piece.count)
            let delay = 3_000 + simulator.draw() % 40_000 + UInt64(piece.count / 2)
            inbound.lastArrival = max(inbound.lastArrival, time.now + delay)
            let copy = Array(piece)
            after(inbound.lastArrival - time.now) { child in
                guard child.phase != .ended else { return }
                child.simulator.queue.fold(UInt64(copy.count))
                child.inbound.arrived.append(copy)
                child.callProgram()
            }
        }
    }

    /// The length of the next piece of `count` bytes; mostly all of them.
    private func cut(_ count: Int) -> Int {
        let dice = simulator.draw()
        return count > 1 && dice & 7 == 0 ? 1 + Int((dice >> 8) % UInt64(count - 1)) : count
    }

    private func callProgram() {
        guard phase == .running, let (program, console) = program else { return }
        let arrived = inbound.arrived
        guard arrived.count > 0 else { return }
        lastEffect = max(lastEffect, time.now)
        let consumed = program.received(arrived.view)
        require(
            consumed >= 0 && consumed <= arrived.count,
            "a program consumes at most its input"
        )
        guard !console.hasEnded else { return }
        arrived.removeFirst(consumed)
        inbound.waiting -= consumed
        guard inbound.isFull, inbound.waiting == 0, consumed > 0 else { return }
        inbound.isFull = false
        deliver { $0.isDrained = true }
    }

    // MARK: Effects of the program

    func programSpent(_ nanoseconds: UInt64) {
        lastEffect = max(lastEffect, time.now) + nanoseconds
    }

    func programSent(_ view: ByteView) {
        guard phase == .running, view.count > 0 else { return }
        if let end = endOfNextOutput {
            endOfNextOutput = nil
            let part = view.slice(0, Int(simulator.draw() % UInt64(view.count)))
            arrive(part.bytes[...])
            return programEnded(end)
        }
        arrive(view.bytes[...])
    }

    private func arrive(_ bytes: ArraySlice<UInt8>) {
        var rest = bytes
        while !rest.isEmpty {
            let piece = Array(rest.prefix(cut(rest.count)))
            rest = rest.dropFirst(piece.count)
            programAct(byteCount: piece.count) { child in
                child.deliver { $0.bytes += piece }
            }
        }
    }

    func programLogged(_ line: String) {
        var lines = ChildLines()
        let text = Array((line + "\n").utf8)
        let complete = text.withUnsafeBytes { lines.append(ByteView($0)) }
        programAct(byteCount: text.count) { child in child.deliver { $0.lines += complete } }
    }

    func programClosed() {
        guard phase == .running else { return }
        programAct(byteCount: 0) { child in
            child.phase = .closed
            child.deliver { $0.isClosed = true }
        }
    }

    func programEnded(_ end: ChildEnd) {
        program?.1.end()
        programAct(byteCount: 0) { $0.end(end) }
    }

    /// Lets an effect of the program arrive at the node, after all earlier ones.
    private func programAct(byteCount: Int, _ act: @escaping (SimulatedChild) -> Void) {
        let slowness = simulator.slowness[process.host.address] ?? 0
        let delay = 3_000 + simulator.draw() % 40_000 + UInt64(byteCount / 2) + slowness
        let earliest = max(lastEffect, time.now) + delay
        lastEffect = earliest
        after(earliest - time.now) { child in
            guard child.phase != .ended else { return }
            child.simulator.queue.fold(UInt64(byteCount))
            act(child)
        }
    }

    private func after(_ nanoseconds: UInt64, _ body: @escaping (SimulatedChild) -> Void) {
        time.add(
            at: time.now + nanoseconds,
            .happen { [weak self] in
                guard let self, !process.isDead else { return }
                body(self)
            }
        )
    }

    // MARK: Calls of the handler

    private func deliver(_ collect: (inout Delivery) -> Void) {
        guard !process.isDead else { return }
        collect(&delivery)
        guard !delivery.isPosted else { return }
        delivery.isPosted = true
        lane.post { [self] in callHandler() }
    }

    private func callHandler() {
        let collected = delivery
        delivery = Delivery()
        guard let handler, !process.isDead else { return }
        for line in collected.lines { handler.logged(line) }
        if !collected.bytes.isEmpty { receive(collected.bytes, handler) }
        if collected.isDrained { handler.drained() }
        if collected.isClosed, collected.end == nil { handler.closed() }
        guard let end = collected.end, !process.isDead else { return }
        self.handler = nil
        handler.ended(end)
    }

    private func receive(_ bytes: [UInt8], _ handler: any ChildHandler) {
        input.append(bytes)
        let consumed = handler.received(input.view)
        require(
            consumed >= 0 && consumed <= input.count,
            "a handler consumes at most its input"
        )
        input.removeFirst(consumed)
        if input.count > settings.inputBytesMax { kill() }
    }
}
