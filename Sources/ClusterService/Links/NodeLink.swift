internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

/// One connection of two nodes, with the streams of both.
///
/// - Urgent streams send first, the others in turn, each at most `NodeStreamLimits.turnBytes` and as much
///   as the other side lets it.
/// - It receives while its output waits, so two nodes that send much at once do not wait for each other.
/// - A node that is silent although it was pinged is lost. The end of a link ends all its streams, with
///   the reason.
/// - Any bytes of the other side give an outcome. A broken frame ends the link, a broken message its stream.
final class NodeLink: DuplexHandler,
    @unchecked Sendable  // tidy:allow its requests are locked, the rest belongs to one reactor
{
    /// A stream that is to be opened.
    struct Opening: Sendable {
        let service: NodeService
        let request: [UInt8]
        let opened: @Sendable (any StreamPort) -> any StreamHandler
        let failed: @Sendable (PeerFailure) -> Void
    }

    private struct Requests {
        var openings: [Opening] = []
        var asked: [LinkStream] = []
        var isProbing = false
        var isWoken = false
        var isClosed = false
        /// Why the link ends; nil while it does not.
        var reason: String?
    }

    private struct Numbers {
        /// Of the next stream that this node opens.
        var next: UInt64
        /// Of the last stream that the other node opened.
        var last: UInt64 = 0
        /// Open streams that this node opened.
        var ownCount = 0
    }

    /// Streams of each side that are open at a time: a node that counts its own keeps to the other's bound.
    private static let streamsMax = 8_192
    /// Answers of this side that wait while it cannot send.
    private static let controlBytesMax = 1 << 20

    let port: PeerPort
    let connection: NodeService.Connection
    private let isInitiator: Bool
    private let transport: PeerTransport
    private let requests = Guarded(Requests())

    // Of the reactor.
    private var streams: [UInt64: LinkStream] = [:]
    private var numbers: Numbers
    private var urgent = StreamQueue()
    private var waiting = StreamQueue()
    /// Credits, pongs and ends that wait until this side can send; they go first.
    private let controls = ByteWriter(capacity: 16)
    private var hasReceived = true
    private var hasSent = true
    private var silentTicks = 0
    private var idleTicks = 0
    private var timer: LaneTimer?
    private var isOver = false

    /// - Parameters:
    ///   - port: The connection, whose handshake is done.
    ///   - connection: Which connection of the two nodes it is.
    ///   - isInitiator: Whether this node opened it.
    ///   - transport: The transport that has the connection.
    init(
        over port: PeerPort,
        _ connection: NodeService.Connection,
        isInitiator: Bool,
        transport: PeerTransport
    ) {
        self.port = port
        self.connection = connection
        self.isInitiator = isInitiator
        self.transport = transport
        numbers = Numbers(next: isInitiator ? 1 : 2)
        if connection.isShared { postTick() }
    }

    var node: NodeNumber { port.identity.node }

    // MARK: Called from any thread

    /// Opens a stream; false if the link is over.
    func open(_ opening: Opening) -> Bool {
        change { requests in
            guard requests.reason == nil else { return false }
            requests.openings.append(opening)
            return true
        }
    }

    /// Finds out whether the other node still answers.
    func probe() { change { $0.isProbing = true } }

    /// Ends the link and all its streams.
    func end(_ reason: String) {
        requests.withLock { $0.reason = $0.reason ?? reason }
        port.close()
    }

    func ask(_ stream: LinkStream, _ change: (inout LinkStream.Asked) -> Void) {
        self.change { requests in
            // A stream keeps its link, so a link that is over must not keep its streams.
            guard !requests.isClosed else { return }
            change(&stream.asked)
            guard !stream.asked.isListed else { return }
            stream.asked.isListed = true
            requests.asked.append(stream)
        }
    }

    private func change<Result>(_ change: (inout Requests) -> Result) -> Result {
        let (result, isFirst) = requests.withLock { requests in
            let result = change(&requests)
            defer { requests.isWoken = true }
            return (result, !requests.isWoken)
        }
        if isFirst { port.wake() }
        return result
    }

    // MARK: Called by the reactor

    var isDuplex: Bool { true }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        var progress = receiveFrames(input)
        guard progress.next != .close else { return progress }
        takeRequests(output)
        if send(output) { progress.next = .drain }
        if isOver { progress.next = .close }
        return progress
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        receive(input, output: output)
    }

    func receiveWhileSending(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        var progress = receiveFrames(input)
        let hasMore = controls.count > 0 || !urgent.isEmpty || !waiting.isEmpty
        if hasMore, progress.next == .receive { progress.next = .drain }
        return progress
    }

    func closed() {
        timer?.cancel()
        let (openings, reason) = requests.withLock { requests in
            let reason = requests.reason ?? "it ended the connection"
            requests.reason = reason
            requests.isClosed = true
            defer { (requests.openings, requests.asked) = ([], []) }
            return (requests.openings, reason)
        }
        transport.unlink(self)
        for (_, stream) in streams.sorted(by: { $0.key < $1.key }) { remove(stream, reason) }
        for opening in openings { opening.failed(.closed) }
    }

    // MARK: Receiving

    private func receiveFrames(_ input: ByteView) -> ReceiveProgress {
        if !input.isEmpty { hasReceived = true }
        var consumed = 0
        while true {
            switch LinkFrameDecoder.next(in: input.dropFirst(consumed)) {
            case .frame(let frame):
                if let flaw = receive(frame) { return refuse(flaw, input) }
                consumed += frame.byteCount
            case .incomplete(let needed):
                return ReceiveProgress(consumed: consumed, next: .receive, needed: needed)
            case .invalid(let flaw): return refuse(flaw, input)
            }
        }
    }

    private func refuse(_ flaw: String, _ input: ByteView) -> ReceiveProgress {
        logFlaw("Closing the connection to \(node): it sent \(flaw).")
        requests.withLock { $0.reason = $0.reason ?? "it sent \(flaw)" }
        return ReceiveProgress(consumed: input.count, next: .close)
    }

    private func logFlaw(_ text: String) {
        // Any process that reaches the port can bring about any number of these.
        if connection == .join { transport.logBroken(text) } else { transport.logWarning(text) }
    }

    /// Returns what is wrong with the frame.
    private func receive(_ frame: LinkFrame) -> String? {
        switch frame.kind {
        case .open: return accept(frame)
        case .ping:
            // A node that sends more pings than this before it can read their answers wastes memory.
            guard controls.count < NodeLink.controlBytesMax else { return "too many pings" }
            LinkFrame.append(.pong, to: controls)
            return nil
        case .pong: return nil
        case .part, .message, .credit, .end: break
        }
        guard let stream = streams[frame.stream] else {
            // It was sent before the end of the stream arrived.
            let next = isOwn(frame.stream) ? numbers.next : numbers.last + 1
            let isKnown = frame.stream < next
            return isKnown ? nil : "a frame of stream \(frame.stream), which was not opened"
        }
        switch frame.kind {
        case .part, .message:
            return stream.receive(frame.payload, isLast: frame.kind == .message)
        case .credit:
            return stream.receiveCredit(Int(frame.payload.bigEndian(at: 0, as: UInt32.self)))
        default:
            stream.end(by: frame.payload.isEmpty ? nil : frame.payload.text)
            return nil
        }
    }

    private func isOwn(_ number: UInt64) -> Bool { number.isMultiple(of: 2) != isInitiator }

    /// Accepts a stream or refuses it.
    private func accept(_ frame: LinkFrame) -> String? {
        let number = frame.stream
        guard !isOwn(number), number > numbers.last else {
            return "the number \(number) for a new stream"
        }
        numbers.last = number
        guard streams.count - numbers.ownCount < NodeLink.streamsMax,
            controls.count < NodeLink.controlBytesMax
        else { return "too many streams" }
        guard connection.isShared || number <= 2 else { return "more than one call" }
        guard let service = NodeService(rawValue: frame.payload[0]),
            service.row.connection == connection, service.row.level <= port.identity.level,
            let accept = transport.accept(service)
        else {
            appendEnd(number, "it does not serve the service \(frame.payload[0])")
            return nil
        }
        let stream = LinkStream(number, service, of: self)
        guard let handler = accept(stream, frame.payload.dropFirst(1)) else {
            appendEnd(number, "it refused the stream")
            return nil
        }
        stream.handler = handler
        streams[number] = stream
        queue(stream)
        return nil
    }

    // MARK: For streams, on the reactor

    /// Ends a stream whose other side has broken the protocol of its service.
    func refuse(_ stream: LinkStream, _ flaw: String) {
        logFlaw("Ended a stream of the service \(stream.service) of \(node): it sent \(flaw).")
        appendEnd(stream.number, "it could not read what this node sent")
        remove(stream, "it sent \(flaw)")
    }

    func sendCredit(_ bytes: Int, of stream: LinkStream) {
        let start = LinkFrame.begin(.credit, stream.number, to: controls)
        controls.append(bigEndian: UInt32(bytes))
        LinkFrame.finish(from: start, in: controls)
    }

    private func appendEnd(_ number: UInt64, _ reason: String?) {
        let start = LinkFrame.begin(.end, number, to: controls)
        controls.append((reason ?? "").utf8.prefix(LinkFrame.reasonBytesMax).map { $0 })
        LinkFrame.finish(from: start, in: controls)
    }

    /// Queues a stream that may have something to send.
    func queue(_ stream: LinkStream) {
        guard !stream.isQueued, stream.handler != nil else { return }
        stream.isQueued = true
        // A large message waits as other streams do.
        if stream.row.isUrgent, stream.outbox.isEmpty {
            urgent.append(stream)
        } else {
            waiting.append(stream)
        }
    }

    func remove(_ stream: LinkStream, _ reason: String?) {
        guard let handler = stream.handler else { return }
        stream.handler = nil
        streams[stream.number] = nil
        if isOwn(stream.number) { numbers.ownCount -= 1 }
        handler.closed(reason)
        if !connection.isShared { isOver = true }
    }

    // MARK: Sending

    /// Does what other threads have asked for.
    private func takeRequests(_ output: ByteWriter) {
        let (openings, asked, isProbing) = requests.withLock { requests in
            defer {
                (requests.openings, requests.asked) = ([], [])
                (requests.isWoken, requests.isProbing) = (false, false)
            }
            let asked = requests.asked.map { stream in
                defer { stream.asked = LinkStream.Asked() }
                return (stream, stream.asked)
            }
            return (requests.openings, asked, requests.isProbing)
        }
        if isProbing { LinkFrame.append(.ping, to: controls) }
        for (stream, asked) in asked where stream.handler != nil {
            if asked.isEnded {
                appendEnd(stream.number, asked.reason)
                remove(stream, asked.reason)
            } else {
                stream.resume(asked)
            }
        }
        // Ends go first: the other side bounds its streams.
        sendControls(output)
        for opening in openings { open(opening, output) }
    }

    private func open(_ opening: Opening, _ output: ByteWriter) {
        guard numbers.ownCount < NodeLink.streamsMax else { return opening.failed(.tooManyStreams) }
        precondition(
            opening.request.count <= NodeStreamLimits.requestBytesMax,
            "the request of a stream is bounded"
        )
        let stream = LinkStream(numbers.next, opening.service, of: self)
        numbers.next += 2
        let start = LinkFrame.begin(.open, stream.number, to: output)
        output.append(opening.service.rawValue)
        output.append(opening.request)
        LinkFrame.finish(from: start, in: output)
        streams[stream.number] = stream
        numbers.ownCount += 1
        stream.handler = opening.opened(stream)
        queue(stream)
    }

    /// Appends what the streams send; true if more of it waits.
    private func send(_ output: ByteWriter) -> Bool {
        while output.count < transport.limits.outputBytesMax,
            let stream = urgent.popFirst() ?? waiting.popFirst()
        {
            stream.isQueued = false
            stream.send(output)
        }
        // Credits that streams have given since then.
        sendControls(output)
        if output.count > 0 { hasSent = true }
        return output.count > 0 && !(urgent.isEmpty && waiting.isEmpty)
    }

    private func sendControls(_ output: ByteWriter) {
        output.append(controls.view)
        controls.removeAll(keepingAtMost: 4_096)
    }

    // MARK: Silence

    private func postTick() {
        let lane = transport.environment.network.lane(ofReactor: port.reactor)
        timer = lane.post(after: transport.limits.pingNanoseconds) { [weak self] in self?.tick() }
    }

    /// Pings a silent node and one to which nothing was sent; ends the link of a node that stays silent, and
    /// one that nothing uses.
    private func tick() {
        guard requests.withLock({ $0.reason == nil }) else { return }
        // A process that was stopped itself finds its timer due before it reads: ticks count, not time.
        silentTicks = hasReceived ? 0 : silentTicks + 1
        hasReceived = false
        // On a slow network, the other node's pings wait behind what it sends: it has to hear this one.
        let isMute = !hasSent
        hasSent = false
        idleTicks = streams.isEmpty ? idleTicks + 1 : 0
        let limits = transport.limits
        if silentTicks >= limits.silentTicksMax {
            let milliseconds = UInt64(silentTicks) * limits.pingNanoseconds / 1_000_000
            transport.environment.trace.info(
                "peers",
                "\(node) is silent for \(milliseconds) ms: closed the connection"
            )
            return end("it did not answer")
        }
        if idleTicks >= limits.idleTicksMax { return end("it was idle") }
        postTick()
        if silentTicks > 0 || isMute { probe() }
    }
}

/// Streams that may send, in the order in which they do.
private struct StreamQueue {
    private var streams: [LinkStream] = []
    private var first = 0

    var isEmpty: Bool { first == streams.count }

    mutating func append(_ stream: LinkStream) { streams.append(stream) }

    mutating func popFirst() -> LinkStream? {
        guard first < streams.count else { return nil }
        defer {
            first += 1
            if first == streams.count || first >= 1_024 {
                streams.removeFirst(first)
                first = 0
            }
        }
        return streams[first]
    }
}
