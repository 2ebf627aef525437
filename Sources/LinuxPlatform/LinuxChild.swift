internal import Bytes
internal import CLinux
internal import Glibc
internal import Seams

/// One child process: its channel, its messages and its end.
///
/// The loop's thread reads, and collects what it read for the lane, which calls the handler. Any
/// thread sends: directly to the socket, or behind the bytes that wait.
///
/// - At most one call of the handler is posted to the lane, and all that came meanwhile goes with
///   it. While that is more than `deliveryBytesMax`, nothing is read and the child waits.
/// - Descriptors are used and closed under the lock, so that no thread uses a number that the
///   system has assigned again.
/// - A child is reaped by its process descriptor, once; if a spawner started the child, the spawner reaps it.
final class LinuxChild: ChildProcess,
    @unchecked Sendable  // tidy:allow a locked part, one of the loop's thread, one of the lane
{
    /// The output and events collected for the next call of the handler.
    struct Delivery {
        var bytes = ByteWriter(capacity: 16)
        var lines: [String] = []
        var isDrained = false
        var isClosed = false
        var end: ChildEnd?
    }

    /// Accessed by every thread, under the lock.
    struct Shared {
        /// Nil before the start and after the end.
        var system: divan_child?
        var backlog = ByteWriter(capacity: 16)
        /// A `send` was refused since the backlog was empty.
        var isFull = false
        /// No more bytes can be sent.
        var isClosed = false
        /// The child has closed its end of the channel.
        var hasEnded = false
        var isKilled = false
        var delivery = Delivery()
        var isPosted = false
    }

    /// Bytes of one read.
    static let readBytes = 64 << 10
    /// Bytes that are read ahead of the handler.
    static let deliveryBytesMax = 256 << 10
    /// Lines that are read ahead of the handler.
    static let deliveryLinesMax = 64
    /// More bytes than the system's buffers have of a child that has ended.
    ///
    /// A process that inherited the child's descriptors might write for ever.
    static let lastBytesMax = 4 << 20
    static let lastLinesMax = 1_024

    let program: ChildProgram
    let shared = Guarded(Shared())
    /// Used by the loop's thread only.
    var lines = ChildLines()
    var slots: [Int] = []
    private let lane: any Lane
    /// Kills the child if another process started it; nil if this one did.
    private let killElsewhere: (@Sendable () -> Void)?
    /// Used by the lane only; nil after the last call.
    private var handler: (any ChildHandler)?
    private var input = ByteWriter(capacity: 16)
    /// Nil until the start.
    private(set) weak var loop: Reactor?

    init(
        _ program: ChildProgram,
        on lane: any Lane,
        _ handler: any ChildHandler,
        killElsewhere: (@Sendable () -> Void)? = nil
    ) {
        self.program = program
        self.lane = lane
        self.handler = handler
        self.killElsewhere = killElsewhere
    }

    // MARK: ChildProcess

    var residentBytes: UInt64? {
        shared.withLock { shared in
            guard let system = shared.system else { return nil }
            return SystemMemory.resident(file: system.memory)
        }
    }

    func send(_ bytes: ByteView) -> ChildSendOutcome {
        shared.withLock { shared in
            guard !shared.isClosed, !shared.isKilled else { return .closed }
            guard shared.backlog.count + bytes.count <= program.outputBytesMax else {
                shared.isFull = true
                return .full
            }
            shared.backlog.append(bytes)
            sendBacklog(&shared)
            return .accepted
        }
    }

    func kill() {
        shared.withLock { shared in
            shared.isKilled = true
            guard let system = shared.system else { return }
            kill(system)
        }
    }

    /// Kills the child, under the lock.
    func kill(_ system: divan_child) {
        if let killElsewhere {
            killElsewhere()
        } else {
            _ = divan_signal_child(system.handle, SIGKILL)
        }
    }

    // MARK: Starting, on the loop's thread

    /// Delivers the end of a child that was killed before its start.
    ///
    /// - Returns: Whether it was.
    func endIfKilled() -> Bool {
        guard shared.withLock({ $0.isKilled }) else { return false }
        deliver { $0.end = .signalled(SIGKILL) }
        return true
    }

    /// Reports that the environment has stopped.
    func refuse() {
        let description = "cannot start \(program.name): this node is stopping"
        fail(ChildError(code: .stopping, description: description))
    }

    /// Starts the program of this name in `directory`.
    func start(in directory: String, on loop: Reactor) {
        guard !endIfKilled() else { return }
        guard !program.name.isEmpty, !program.name.contains("/") else {
            return fail(SystemError.child(EINVAL, "\"\(program.name)\""))
        }
        let path = directory + "/" + program.name
        var system = divan_child()
        let code = LinuxChild.withArguments([path] + program.arguments) {
            divan_start_child(path, $0, &system)
        }
        guard code == 0 else { return fail(SystemError.child(code, path)) }
        begin(system, path: path, on: loop)
    }

    /// Serves a child that was started.
    func begin(_ system: divan_child, path: String, on loop: Reactor) {
        self.loop = loop
        shared.withLock { $0.system = system }
        guard watch(system, loop) else {
            shared.withLock { _ in kill(system) }
            finish(isForced: true, failure: SystemError.child(ENOMEM, path))
            return
        }
        shared.withLock { shared in
            if shared.isKilled { kill(system) }
            sendBacklog(&shared)
        }
    }

    /// Watches the descriptors that have events; false if the kernel has no memory for that.
    private func watch(_ system: divan_child, _ loop: Reactor) -> Bool {
        let edge = divan_event_in | divan_event_edge
        let channel = edge | divan_event_out | divan_event_read_hang_up
        let watched: [(Int32, UInt32, (UInt32) -> Void)] = [
            (system.channel, channel, { [self] in channelReady($0) }),
            (system.messages, edge, { [self] _ in readMessages() }),
            (system.handle, edge, { [self] _ in finish(isForced: false, failure: nil) }),
        ]
        for (descriptor, events, act) in watched where descriptor >= 0 {
            let target = ChildDescriptor(act) { [self] in abandon() }
            guard let slot = loop.watch(descriptor, events: events, by: target) else {
                return false
            }
            slots.append(slot)
        }
        return true
    }

    func fail(_ error: ChildError) { deliver { $0.end = .notStarted(error) } }

    static func withArguments<Result>(
        _ arguments: [String],
        _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result
    ) -> Result {
        var copies = arguments.map { strdup($0) }
        copies.append(nil)
        defer { for copy in copies { free(copy) } }
        return copies.withUnsafeBufferPointer { buffer in
            // The array has at least its last element.
            buffer.baseAddress.map(body) ?? body([nil])
        }
    }

    // MARK: Delivering

    /// Collects something for the handler and posts its call.
    func deliver(_ collect: (inout Delivery) -> Void) {
        shared.withLock { shared in
            collect(&shared.delivery)
            post(&shared)
        }
    }

    /// Posts the call of the handler, under the lock.
    func post(_ shared: inout Shared) {
        if shared.delivery.end != nil { shared.isClosed = true }
        guard !shared.isPosted else { return }
        shared.isPosted = true
        lane.post { [self] in callHandler() }
    }

    private func callHandler() {
        let delivery = shared.withLock { shared in
            let delivery = shared.delivery
            shared.delivery = Delivery()
            shared.isPosted = false
            return delivery
        }
        resumeReading(after: delivery)
        guard let handler else { return }
        for line in delivery.lines { handler.logged(line) }
        if delivery.bytes.count > 0 { receive(delivery.bytes, handler) }
        if delivery.isDrained { handler.drained() }
        if delivery.isClosed, delivery.end == nil { handler.closed() }
        guard let end = delivery.end else { return }
        self.handler = nil
        input.removeAll(keepingAtMost: 16)
        handler.ended(end)
    }

    private func receive(_ bytes: ByteWriter, _ handler: any ChildHandler) {
        // Without a rest of an earlier call, the bytes need not be copied.
        if input.count == 0 { input = bytes } else { input.append(bytes.view) }
        let consumed = handler.received(input.view)
        precondition(
            consumed >= 0 && consumed <= input.count,
            "a handler cannot consume more than its input"
        )
        input.removeFirst(consumed)
        if input.count > program.inputBytesMax { kill() }
        if input.count == 0 { input.removeAll(keepingAtMost: LinuxChild.readBytes) }
    }

    private func resumeReading(after delivery: Delivery) {
        let isPaused =
            delivery.bytes.count >= LinuxChild.deliveryBytesMax
            || delivery.lines.count >= LinuxChild.deliveryLinesMax
        guard isPaused, delivery.end == nil else { return }
        loop?.post { [self] in
            readChannel()
            readMessages()
        }
    }
}

/// One of a child's descriptors, as its loop serves it.
private final class ChildDescriptor: ReadinessTarget {
    private let act: (UInt32) -> Void
    private let stop: () -> Void

    init(_ act: @escaping (UInt32) -> Void, stop: @escaping () -> Void) {
        self.act = act
        self.stop = stop
    }

    func ready(_ events: UInt32) { act(events) }

    func abandon() { stop() }
}
