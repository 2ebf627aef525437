internal import Bytes
internal import Deflate
internal import NIOCore
internal import SyncWire

/// The body of one request: bounded, inflated, and passed to the handler that asked for it.
///
/// - The connection passes the parts that arrived only while `isReady`; the others wait there, and keep the socket
///   from being read.
/// - The outcome is reported once. What arrives after a refusal or an answer is dropped, and bounded too.
final class RequestBody {
    typealias Collected = (Result<ByteWriter, Refusal>) -> Void
    typealias Consume = (ByteView) throws(Refusal) -> Void

    private enum Purpose {
        /// No handler has asked for the body.
        case unknown
        case collect(ByteWriter, atMost: Int, Collected)
        case stream(Consume, (Refusal?) -> Void)
        /// The answer does not need it: the client still sends it, and reads the answer only then.
        case drain
        /// All has arrived and was passed.
        case over
    }

    /// Bytes of an unwanted body that are received, so that the connection can serve the next request.
    static let drainedBytesMax = 1 << 20
    /// Bytes that an inflating body produces at one time.
    private static let pieceBytesMax = 64 << 10

    private let budget: BodyBudget
    private let inflater: Inflater?
    private let inflated = ByteWriter(capacity: 16)
    private var purpose = Purpose.unknown
    private var isPaused = false
    private var isPassing = false
    /// A part that is inflated, of which more is to come.
    private var rest: ByteBuffer?
    private var hasEnded = false
    private var (accountedBytes, drainedBytes) = (0, 0)

    init(isGzipped: Bool, _ budget: BodyBudget) {
        self.budget = budget
        inflater = isGzipped ? Inflater(.gzip) : nil
    }

    /// Whether the next part may be passed.
    var isReady: Bool {
        guard !isPaused, rest == nil else { return false }
        if case .unknown = purpose { return false }
        return true
    }

    /// Whether all of it arrived, and was passed or dropped.
    var isOver: Bool { if case .over = purpose { true } else { false } }

    /// Whether more was dropped than a connection waits for.
    var isTooLongToDrain: Bool { drainedBytes > Self.drainedBytesMax }

    var isUnknown: Bool { if case .unknown = purpose { true } else { false } }

    func collect(atMost bytesMax: Int, _ done: @escaping Collected) {
        precondition(isUnknown, "a body is read once")
        purpose = .collect(ByteWriter(capacity: 1 << 10), atMost: bytesMax, done)
    }

    func stream(_ consume: @escaping Consume, _ done: @escaping (Refusal?) -> Void) {
        precondition(isUnknown, "a body is read once")
        purpose = .stream(consume, done)
    }

    /// No answer needs what is still to come.
    func drain() {
        rest = nil
        isPaused = false
        if !isOver { purpose = hasEnded ? .over : .drain }
    }

    func pause() { isPaused = true }

    /// Passes what waits of the last part; the connection passes the others.
    func resume() {
        guard isPaused else { return }
        isPaused = false
        passRest()
    }

    /// Accounts for what the handler of a streamed body keeps of it.
    ///
    /// - Throws: `Refusal` 503; the handler then ends the request.
    func keep(_ bytes: Int) throws(Refusal) {
        try budget.resize(from: accountedBytes, to: bytes)
        accountedBytes = bytes
    }

    /// Frees the part of the budget; the handler has the bytes no longer.
    func release() {
        try? budget.resize(from: accountedBytes, to: 0)
        accountedBytes = 0
    }

    func receive(_ part: ByteBuffer) {
        rest = part
        passRest()
    }

    /// The last part has arrived.
    func receiveEnd() {
        hasEnded = true
        passEnd()
    }

    /// Reports that the rest will not come.
    func fail(_ refusal: Refusal) {
        let before = purpose
        purpose = .over
        rest = nil
        Self.report(refusal, to: before)
    }

    // MARK: Passing

    private func passRest() {
        // The handler may resume within a call, whose part goes on then.
        guard !isPassing else { return }
        isPassing = true
        while let part = exchange(&rest, with: nil) {
            do throws(Refusal) {
                rest = try pass(part)
            } catch {
                refuse(error)
            }
            if isPaused { break }
        }
        isPassing = false
        passEnd()
    }

    private func passEnd() {
        guard hasEnded, rest == nil, !isPaused, !isPassing, !isOver else { return }
        if let inflater, !inflater.isAtEnd, !isDraining {
            refuse(Refusal(400, "The request's body ends within its gzip stream"))
        }
        let before = purpose
        purpose = .over
        switch before {
        case .collect(let bytes, _, let done): done(.success(bytes))
        case .stream(_, let done): done(nil)
        case .unknown, .drain, .over: break
        }
    }

    private var isDraining: Bool { if case .drain = purpose { true } else { false } }

    /// Passes a part, or a piece of what it inflates to.
    ///
    /// - Throws: `Refusal`: the body exceeds a bound, cannot be inflated, or its handler refuses it.
    /// - Returns: What of the part is still to be passed; nil if nothing.
    private func pass(_ part: ByteBuffer) throws(Refusal) -> ByteBuffer? {
        if case .drain = purpose {
            drainedBytes += part.readableBytes
            return nil
        }
        guard let inflater else {
            let passed: Result<Void, Refusal> = part.withUnsafeReadableBytes { bytes in
                Result { () throws(Refusal) in try consume(ByteView(bytes)) }
            }
            try passed.get()
            return nil
        }
        inflated.removeAll(keepingAtMost: Self.pieceBytesMax)
        let step: Result<Int, InflateFailure> = part.withUnsafeReadableBytes { bytes in
            Result { () throws(InflateFailure) in
                try inflater.inflate(ByteView(bytes), to: inflated, atMost: Self.pieceBytesMax)
            }
        }
        switch step {
        case .failure(.damaged): throw Refusal(400, "The request's body is not valid gzip")
        case .failure(.bomb):
            throw Refusal(413, "The request's body expands to more than 100 times its gzip size")
        case .success(let consumed):
            if !inflated.view.isEmpty { try consume(inflated.view) }
            var rest = part
            rest.moveReaderIndex(forwardBy: consumed)
            let mayHaveMore = rest.readableBytes > 0 || inflated.count == Self.pieceBytesMax
            return mayHaveMore ? rest : nil
        }
    }

    private func consume(_ bytes: ByteView) throws(Refusal) {
        switch purpose {
        case .collect(let collected, let bytesMax, _):
            let count = collected.count + bytes.count
            guard count <= bytesMax else {
                throw Refusal(413, "The request's body has more than \(bytesMax) bytes")
            }
            try budget.resize(from: accountedBytes, to: count)
            accountedBytes = count
            collected.append(bytes)
        case .stream(let consume, _): try consume(bytes)
        // The handler has answered within a call.
        case .unknown, .drain, .over: break
        }
    }

    private func refuse(_ refusal: Refusal) {
        let before = purpose
        drain()
        Self.report(refusal, to: before)
    }

    private static func report(_ refusal: Refusal, to purpose: Purpose) {
        switch purpose {
        case .collect(_, _, let done): done(.failure(refusal))
        case .stream(_, let done): done(refusal)
        case .unknown, .drain, .over: break
        }
    }
}

/// Bounds the memory of all bodies that are collected at one time.
///
/// A body of up to `ownBytes` is always accepted. One that exceeds what all bodies share is refused, because clients
/// repeat a refused request, and a delayed one would keep its memory.
final class BodyBudget {
    static let ownBytes = 64 << 10

    private let bytesMax: Int
    private var usedBytes = 0

    init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// Accounts for a body whose size changes; a smaller size always fits.
    ///
    /// - Throws: `Refusal` with 503; nothing has changed.
    func resize(from before: Int, to after: Int) throws(Refusal) {
        let more = max(0, after - Self.ownBytes) - max(0, before - Self.ownBytes)
        guard more <= 0 || usedBytes + more <= bytesMax else {
            throw Refusal(503, "The gateway receives too many large requests; try again later")
        }
        usedBytes += more
    }
}
