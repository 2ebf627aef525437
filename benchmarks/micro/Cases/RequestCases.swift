internal import Bytes
internal import DataService
internal import LinuxPlatform
internal import Seams
internal import Vocabulary
internal import Wire

/// GETs or SETs through a connection's `receive`: the whole path of a request except the sockets.
struct RequestCase {
    enum Kind {
        case get
        case set
        case setJSON
        /// The document of `PathCases`, whole.
        case getDocument
        /// Its field in the middle.
        case getPath

        var opcode: Opcode {
            switch self {
            case .get, .getDocument: .get
            case .getPath: .subdocGet
            case .set, .setJSON: .set
            }
        }
    }

    let valueBytes: Int
    /// Requests in one read: the pipeline's depth.
    let batch: Int
    let kind: Kind

    private var isDocument: Bool { kind == .getDocument || kind == .getPath }
    private var keyCount: Int { isDocument ? 500 : 10_000 }

    func run(_ operations: Int) throws {
        let session = try Session()
        var samples = Samples(seed: 3)
        let values = (0..<64).map { _ in
            switch kind {
            case .setJSON: samples.json(valueBytes)
            case .getDocument, .getPath: PathCases.document()
            case .get, .set: samples.binary(valueBytes)
            }
        }
        for number in 0..<keyCount {
            session.append(.set, number, values[number % 64])
            session.deliver()
        }
        // Each batch is rendered before counting begins.
        var random = SeededRandom(seed: 5)
        let batches = (0..<max(1, operations / batch)).map { place in
            let frames = ByteWriter()
            for offset in 0..<batch {
                let key = Int(random.next() % UInt64(keyCount))
                let value: [UInt8] =
                    switch kind.opcode {
                    case .set: values[(place + offset) % 64]
                    case .subdocGet: Array(PathCases.path.utf8)
                    default: []
                    }
                session.append(kind.opcode, key, value, to: frames)
            }
            return frames
        }
        let expected =
            switch kind {
            case .get: 24 + 4 + valueBytes
            case .getDocument: 24 + 4 + values[0].count
            case .getPath: 24 + 4
            case .set, .setJSON: 24 + 16
            }
        // The first request of a kind allocates its histogram.
        session.deliver(batches[0], expecting: batch * expected)
        measuredWork {
            for frames in batches {
                session.deliver(frames, expecting: batch * expected)
            }
        }
    }
}

/// A data service with one ephemeral bucket, and a client that is logged in.
private final class Session {
    private final class Port: ConnectionPort {
        let peer = SocketAddress(host: "127.0.0.1", port: 1)
        let local = SocketAddress(host: "127.0.0.1", port: 2)
        let reactor = 0

        func wake() {}
        func close() {}
    }

    private let connection: Connection
    private let requests = ByteWriter(capacity: 256 << 10)
    private let replies = ByteWriter(capacity: 256 << 10)

    init() throws {
        let world = LinuxEnvironment.make(reactors: 1, logLevel: .error)
        let service = DocumentService(
            environment: world.environment,
            version: "micro",
            dataDirectory: "/nonexistent",
            plainBucketName: nil
        )
        var settings = BucketSettings(
            name: "micro",
            uuid: String(repeating: "0", count: 32),
            quota: 1 << 30
        )
        settings.type = .ephemeral
        settings.evictionPolicy = .noEviction
        settings.passwordless = .loopback
        try service.open(settings)
        connection = Connection(port: Port(), service: service, isMemcachedListener: false)
        // As the official clients do: documents are JSON, changes have tokens.
        let features = ByteWriter()
        FeatureSet([.selectBucket, .extendedErrors, .json, .mutationSeqno]).append(to: features)
        RequestEncoder.append(.hello, to: requests, value: features.view)
        "PLAIN".utf8.withContiguousStorageIfAvailable { mechanism in
            Array("\0micro\0".utf8).withUnsafeBytes { login in
                RequestEncoder.append(
                    .saslAuth,
                    to: requests,
                    key: ByteView(UnsafeRawBufferPointer(mechanism)),
                    value: ByteView(login)
                )
            }
        }
        deliver()
    }

    func append(_ opcode: Opcode, _ number: Int, _ value: [UInt8], to frames: ByteWriter? = nil) {
        let key = Samples.key(number)
        let extras: [UInt8] =
            switch opcode {
            case .set: [0, 0, 0, 0, 0, 0, 0, 0]
            // The path's length, and no flags.
            case .subdocGet: [0, UInt8(PathCases.path.utf8.count), 0]
            default: []
            }
        key.withUnsafeBytes { key in
            value.withUnsafeBytes { value in
                extras.withUnsafeBytes { extras in
                    RequestEncoder.append(
                        opcode,
                        to: frames ?? requests,
                        vBucket: VBucketID(ofKey: ByteView(key), count: 1_024),
                        extras: ByteView(extras),
                        key: ByteView(key),
                        value: ByteView(value)
                    )
                }
            }
        }
    }

    /// Passes the appended requests to the connection; every answer must be a success.
    func deliver() {
        var view = requests.view
        while view.count > 0 {
            let progress = connection.receive(view, output: replies)
            precondition(progress.consumed > 0, "the connection waits for something")
            view = view.dropFirst(progress.consumed)
        }
        requests.removeAll()
        var answers = replies.view
        while answers.count > 0 {
            let header = FrameHeader(answers)
            precondition(header.statusNumber == 0, "answered \(header.statusNumber)")
            answers = answers.dropFirst(header.frameCount)
        }
        replies.removeAll()
    }

    @inline(__always)
    func deliver(_ frames: ByteWriter, expecting bytes: Int) {
        let progress = connection.receive(frames.view, output: replies)
        precondition(
            progress.consumed == frames.count && replies.count == bytes,
            "the answers have another size: \(replies.count), not \(bytes)"
        )
        replies.removeAll()
    }
}
