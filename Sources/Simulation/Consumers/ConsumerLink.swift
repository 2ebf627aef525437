internal import Bytes
internal import DivanClient
internal import Seams
internal import Vocabulary
internal import Wire

/// One connection of an outside consumer to one node: the login, requests, and flow control.
///
/// - Belongs to one `SimulatedConsumer`, which receives its events.
final class ConsumerLink: ConnectionHandler,
    @unchecked Sendable  // tidy:allow one thread, and a check for it
{
    /// The request that a response answers.
    enum Question: Hashable {
        case open
        case control
        case map
        case stream(Int, DCPStreamRequest)
        case closedStream(Int)
        case failoverLog(Int, DCPStreamRequest, rolledBackTo: Seqno)
    }

    private enum Phase {
        case login(Handshake)
        /// DCP_OPEN is not answered yet; with what the node agreed to show of attributes.
        case opening(AttributeForm)
        case ready(AttributeForm)
        case gone
    }

    /// Flow control: the buffer size, the unacknowledged bytes, and delays of a slow client.
    private struct Flow {
        let bufferBytes: Int?
        var unacknowledged = 0
        /// Bytes are not acknowledged: the client is slow.
        var isWithheld = false
        /// Bytes are not even read.
        var isPaused = false
    }

    let address: SocketAddress
    let openedAt: UInt64
    /// When bytes of the node were last received.
    private(set) var heardAt: UInt64
    private let habits: ConsumerHabits
    private weak var owner: SimulatedConsumer?
    private var phase: Phase
    private var port: (any ConnectionPort)?
    private let outbox = ByteWriter()
    private var questions: [UInt32: Question] = [:]
    private var opaque: UInt32 = 0
    private var flow: Flow
    private var hasBegun = false

    init(
        to address: SocketAddress,
        _ login: Handshake.Login,
        nonce: String,
        _ habits: ConsumerHabits,
        owner: SimulatedConsumer
    ) {
        self.address = address
        self.habits = habits
        self.owner = owner
        openedAt = owner.now
        heardAt = owner.now
        phase = .login(Handshake(login, nonce: nonce))
        flow = Flow(bufferBytes: habits.bufferBytes)
    }

    var isReady: Bool { if case .ready = phase { true } else { false } }
    /// The attributes that the node agreed to send.
    var form: AttributeForm {
        switch phase {
        case .opening(let form), .ready(let form): form
        case .login, .gone: .bodies
        }
    }
    var isGone: Bool { if case .gone = phase { true } else { false } }
    /// The node gets what it needs to send everything.
    var isBrisk: Bool { isReady && !flow.isWithheld && !flow.isPaused }

    // MARK: The consumer's side

    func connect(_ network: any Network) {
        network.connect(
            to: address,
            connected: { [self] port in
                self.port = port
                if isGone { port.close() } else { port.wake() }
                return self
            },
            failed: { [self] _ in closed() }
        )
    }

    func close() {
        guard !isGone else { return }
        port?.close()
        closed()
    }

    /// Sends what `append` encodes; its response is passed on with `question`.
    ///
    /// - Returns: The opaque of the request.
    @discardableResult
    func send(
        _ question: Question,
        of vBucket: VBucketID = VBucketID(0),
        _ append: (DCPEncoder, ByteWriter) -> Void
    ) -> UInt32 {
        opaque += 1
        questions[opaque] = question
        append(DCPEncoder(vBucket: vBucket, opaque: opaque), outbox)
        port?.wake()
        return opaque
    }

    func requestMap() {
        guard !questions.values.contains(.map) else { return }
        send(.map) { encoder, output in
            RequestEncoder.append(.getClusterConfig, to: output, opaque: encoder.opaque)
        }
    }

    /// Makes the client slow: it withholds acknowledgements, or also reads nothing.
    func slowDown(isPaused: Bool) {
        flow.isWithheld = true
        flow.isPaused = isPaused
    }

    func hurry() {
        guard flow.isWithheld || flow.isPaused else { return }
        flow.isWithheld = false
        flow.isPaused = false
        // The node could send nothing meanwhile.
        heardAt = owner?.now ?? heardAt
        port?.wake()
    }

    // MARK: The reactor's side

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        if !hasBegun, case .login(let handshake) = phase {
            hasBegun = true
            handshake.begin(output)
        }
        return receive(input, output: output)
    }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        var (offset, needed) = (0, 0)
        if !flow.isPaused {
            decoding: while !isGone {
                switch FrameDecoder().next(in: input.dropFirst(offset)) {
                case .incomplete(let count):
                    needed = count
                    break decoding
                case .valueTooBig, .invalid:
                    owner?.reportFlaw("\(address) sends bytes that are no message")
                    close()
                case .frame(let frame):
                    offset += frame.byteCount
                    heardAt = owner?.now ?? heardAt
                    handle(frame, output)
                }
            }
            acknowledge()
        }
        guard !isGone else { return ReceiveProgress(consumed: input.count, next: .close) }
        output.append(outbox.view)
        outbox.removeAll()
        return ReceiveProgress(
            consumed: offset,
            next: flow.isPaused ? .pause : .receive,
            needed: needed
        )
    }

    func closed() {
        guard !isGone else { return }
        phase = .gone
        port = nil
        owner?.lost(self)
    }

    /// Acknowledges received bytes when they are half a buffer.
    private func acknowledge() {
        guard let bytes = flow.bufferBytes, !flow.isWithheld, !isGone,
            flow.unacknowledged * 2 >= bytes, flow.unacknowledged > 0
        else { return }
        DCPEncoder(vBucket: VBucketID(0), opaque: 0)
            .append(acknowledged: UInt32(clamping: flow.unacknowledged), to: outbox)
        flow.unacknowledged = 0
    }

    // MARK: Messages

    private func handle(_ frame: Frame, _ output: ByteWriter) {
        switch frame.header.magic {
        case .serverRequest: owner?.sees(frame.value, from: self)
        case .response, .flexResponse: handleResponse(frame, output)
        case .request where frame.opcode == .dcpNoop: answerNoop(frame)
        case .request:
            flow.unacknowledged += frame.byteCount
            owner?.receive(frame, from: self)
        default: owner?.reportFlaw("\(address) sends a message with an unexpected magic")
        }
    }

    /// Both kinds of answers count: a response, and a request of the same opaque.
    private func answerNoop(_ frame: Frame) {
        if habits.answersByRequest {
            RequestEncoder.append(.dcpNoop, to: outbox, opaque: frame.opaque)
        } else {
            ResponseEncoder.append(.success, to: outbox, replyTo: frame.replyTo)
        }
    }

    private func handleResponse(_ frame: Frame, _ output: ByteWriter) {
        if case .login(let handshake) = phase {
            return continueLogin(handshake, frame, to: output)
        }
        // A late answer to a no-op counts as a request, as does an acknowledgement without streams.
        guard frame.opcode != .dcpNoop, frame.opcode != .dcpBufferAcknowledgement else { return }
        guard let question = questions.removeValue(forKey: frame.opaque) else {
            owner?.reportFlaw(
                "\(address) answers what was not requested: \(frame.header.opcodeByte)"
            )
            return close()
        }
        let isSuccess = frame.header.status == .success
        switch question {
        case .open where isSuccess: phase = .ready(form)
        case .open: close()
        case .control where isSuccess: break
        case .control:
            owner?.reportFlaw("\(address) refuses a control message: \(frame.header.statusNumber)")
        case .map: if isSuccess { owner?.sees(frame.value, from: self) }
        case .stream, .closedStream, .failoverLog: owner?.answered(question, frame, from: self)
        }
    }

    private func continueLogin(_ before: Handshake, _ frame: Frame, to output: ByteWriter) {
        var handshake = before
        do throws(Handshake.Failure) {
            switch try handshake.handle(frame, output) {
            case .more: phase = .login(handshake)
            case .done(let features, let configuration):
                phase = .opening(features.contains(.xattr) ? habits.form : .bodies)
                if let configuration {
                    configuration.withUnsafeBytes { bytes in
                        let view = ByteView(bytes)
                        owner?.sees(view, from: self)
                    }
                }
                open()
            }
        } catch {
            // A node that does not serve the bucket yet.
            close()
        }
    }

    private func open() {
        let name = habits.name
        send(.open) { encoder, output in
            Array(name.utf8).withUnsafeBytes {
                encoder.appendOpen(
                    flags: habits.openFlags(form),
                    name: ByteView($0),
                    to: output
                )
            }
        }
        for (name, value) in habits.controls {
            send(.control) { encoder, output in
                Array(name.utf8).withUnsafeBytes { name in
                    Array(value.utf8).withUnsafeBytes { value in
                        encoder.appendControl(
                            key: ByteView(name),
                            value: ByteView(value),
                            to: output
                        )
                    }
                }
            }
        }
    }
}
