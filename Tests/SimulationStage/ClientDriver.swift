import Bytes
import Seams
import SimulatedPlatform
import TestWorld
import Vocabulary

/// A client of one bucket: sends one request at a time and reports each outcome to the verifier.
final class ClientDriver: @unchecked Sendable {
    enum Operation {
        case set(Verifier.Document, [UInt8])
        case delete(Verifier.Document)
        case get(Verifier.Document)
        case observe(UInt16)
    }

    let bucket: String
    private let number: Int
    private let verifier: Verifier
    private let network: any Network
    private let lane: any Lane
    private var random: SeededRandom
    private let documents: [Verifier.Document]
    private let vBuckets: Int
    private let thinkNanoseconds: UInt64
    private var connection: ClientConnection?
    private var pending: Operation?
    /// Counts requests, so that a timeout detects that its request is still pending.
    private var requests: UInt64 = 0
    private var values = 0
    /// The UUIDs of vBuckets, from the tokens of their newest writes.
    private var histories: [UInt16: UInt64] = [:]
    /// Whether the client only reads all documents once and sends no other requests.
    private var isReading = false
    private var toRead: [Verifier.Document] = []
    private(set) var hasReadAll = false
    private(set) var refusals = 0

    /// Longer than any pause of a healthy node; shorter than most faults.
    private static let answerTimeoutNanoseconds: UInt64 = 2_500_000_000

    init(
        _ number: Int,
        bucket: BucketSettings,
        keys: Int,
        verifier: Verifier,
        world: SimulatedWorld,
        environment: Environment
    ) {
        self.number = number
        self.bucket = bucket.name
        self.verifier = verifier
        network = environment.network
        lane = environment.network.lane(ofReactor: 0)
        random = world.random(for: "client \(number)")
        vBuckets = bucket.vBuckets
        thinkNanoseconds = 10_000_000 + random.next() % 60_000_000
        documents = (0..<keys).map {
            Verifier.Document(bucket: bucket.name, key: "client\(number)-key\($0)")
        }
        for document in documents { verifier.add(document, vBucket: vBucket(document)) }
    }

    private func vBucket(_ document: Verifier.Document) -> UInt16 {
        VBucketID(ofKey: Array(document.key.utf8), count: vBuckets).number
    }

    // MARK: Connecting

    func start() {
        let address = SocketAddress(host: NodeDriver.address, port: NodeDriver.port)
        network.connect(
            to: address,
            connected: { [self] port in
                let connection = ClientConnection(port: port, start: verifier.start, owner: self)
                self.connection = connection
                connection.login(bucket)
                closeWithoutAnswer(connection)
                return connection
            },
            failed: { [self] _ in startLater() }
        )
    }

    private func startLater() {
        lane.post(after: 100_000_000 + random.next() % 200_000_000) { [self] in start() }
    }

    /// Closes the connection if the current request has no answer in time.
    private func closeWithoutAnswer(_ connection: ClientConnection) {
        requests += 1
        let request = requests
        lane.post(after: ClientDriver.answerTimeoutNanoseconds) { [self] in
            if requests == request { connection.close() }
        }
    }

    func connectionClosed(_ connection: ClientConnection) {
        guard self.connection === connection else { return }
        self.connection = nil
        requests += 1
        switch pending {
        case .set(let document, let value): verifier.mayHaveWritten(document, value)
        case .delete(let document): verifier.mayHaveWritten(document, nil)
        case .get(let document): if isReading { toRead.append(document) }
        case .observe, nil: break
        }
        pending = nil
        startLater()
    }

    // MARK: Requests

    /// Reads every document once from now on and sends no other requests.
    func readAll() {
        isReading = true
        hasReadAll = false
        toRead = documents
        if connection == nil { return }
        if pending == nil { sendNext() }
    }

    func loggedIn() { sendNext() }

    private func sendNext() {
        requests += 1
        guard let connection, pending == nil else { return }
        if isReading {
            guard let document = toRead.popLast() else {
                hasReadAll = true
                return
            }
            return send(.get(document), connection)
        }
        let think = random.next() % (2 * thinkNanoseconds)
        lane.post(after: think) { [self] in
            guard self.connection === connection, pending == nil else { return }
            if isReading { return sendNext() }
            send(draw(), connection)
        }
    }

    private func draw() -> Operation {
        let document = documents[Int(random.next() % UInt64(documents.count))]
        switch random.next() % 10 {
        case 0...4:
            values += 1
            let size = random.next() % 8 == 0 ? random.next() % 20_000 : random.next() % 600
            let filler = String(repeating: "abcdefgh-", count: Int(size / 9))
            return .set(document, Array("\(number).\(values).\(filler)".utf8))
        case 5: return .delete(document)
        case 6, 7: return .get(document)
        default: return .observe(vBucket(document))
        }
    }

    private func send(_ operation: Operation, _ connection: ClientConnection) {
        pending = operation
        let request =
            switch operation {
            case .set(let document, let value):
                frame(
                    0x01,
                    key: Array(document.key.utf8),
                    value: value,
                    extras: big(UInt32(0)) + big(UInt32(0)),
                    vBucket: vBucket(document)
                )
            case .delete(let document):
                frame(0x04, key: Array(document.key.utf8), vBucket: vBucket(document))
            case .get(let document):
                frame(0x00, key: Array(document.key.utf8), vBucket: vBucket(document))
            case .observe(let vBucket):
                frame(0x91, value: big(histories[vBucket] ?? 0), vBucket: vBucket)
            }
        connection.send(request)
        closeWithoutAnswer(connection)
    }

    // MARK: Replies

    func handle(_ reply: Reply, _ start: Int) {
        guard let operation = pending else { return }
        pending = nil
        switch (operation, reply.status) {
        case (_, 0x86):
            // Temporary failure: the operation had no effect.
            refusals += 1
            if isReading, case .get(let document) = operation { toRead.append(document) }
            requests += 1
            lane.post(after: 50_000_000) { [self] in sendNext() }
            return
        case (.set(let document, let value), 0):
            verifier.wrote(document, value, seqno: seqno(reply, document), start: start)
        case (.delete(let document), 0):
            verifier.wrote(document, nil, seqno: seqno(reply, document), start: start)
        case (.get(let document), 0): verifier.read(document, reply.value, start: start)
        case (.get(let document), 1), (.delete(let document), 1):
            verifier.read(document, nil, start: start)
        // The client has no token of the vBucket, or the history of its token is lost.
        case (.observe, 1): break
        case (.observe(let vBucket), 0):
            let persisted = reply.value[11..<19].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            verifier.persisted(bucket, vBucket, through: persisted, start: start)
        default: verifier.recordViolation("unexpected status \(reply.status) for \(operation)")
        }
        sendNext()
    }

    /// The seqno of a write; notes the history of its vBucket.
    private func seqno(_ reply: Reply, _ document: Verifier.Document) -> UInt64 {
        guard reply.extras.count == 16 else {
            verifier.recordViolation("a write was acknowledged without a mutation token")
            return 0
        }
        histories[vBucket(document)] = reply.extras[0..<8].reduce(0) { $0 << 8 | UInt64($1) }
        return reply.extras[8..<16].reduce(0) { $0 << 8 | UInt64($1) }
    }
}

/// The client's end of one connection.
final class ClientConnection: ConnectionHandler, @unchecked Sendable {
    private let port: any ConnectionPort
    /// The number of the node's start that serves this connection.
    private let start: Int
    private let owner: ClientDriver
    private var outbox: [UInt8] = []
    private var loginsLeft = 2

    init(port: any ConnectionPort, start: Int, owner: ClientDriver) {
        self.port = port
        self.start = start
        self.owner = owner
    }

    /// HELLO for mutation tokens, then PLAIN with the bucket's name.
    func login(_ bucket: String) {
        let plain: [UInt8] = [0] + Array(bucket.utf8) + [0]
        send(frame(0x1f, key: Array("stage".utf8), value: big(UInt16(0x04)) + big(UInt16(0x07))))
        send(frame(0x21, key: Array("PLAIN".utf8), value: plain))
    }

    func send(_ bytes: [UInt8]) {
        outbox += bytes
        port.wake()
    }

    func close() { port.close() }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        let (replies, rest) = Reply.split(input.bytes)
        for reply in replies {
            if loginsLeft == 0 {
                owner.handle(reply, start)
                continue
            }
            loginsLeft -= 1
            guard reply.status == 0 else {
                return ReceiveProgress(consumed: input.count, next: .close)
            }
            if loginsLeft == 0 { owner.loggedIn() }
        }
        output.append(outbox)
        outbox = []
        return ReceiveProgress(consumed: input.count - rest.count, next: .receive)
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        receive(input, output: output)
    }

    func closed() { owner.connectionClosed(self) }
}
