internal import Bytes
internal import Indexing

/// The queries of one coordinator at this node, and the replies that wait to be sent; decides, and is
/// used under a lock.
///
/// - What waits is bounded: each query has at most its credit of batches here, and the frames of a
///   cancelled query are removed.
/// - Replies of one query keep their order. Nothing follows the reply that ends a query.
struct AnsweredQueries: Sendable {
    private struct Query {
        var call: (any QueryCall)?
        var credit = RowMerge.creditMax
    }

    private struct Waiting {
        let number: UInt32
        let frame: [UInt8]
    }

    /// The effect of a received frame.
    enum Step {
        case none
        /// Answer this request.
        case begin(number: UInt32, request: [UInt8])
        case credit(any QueryCall)
        case cancel(any QueryCall)
        /// The text completes "it sent ...".
        case invalid(String)
    }

    private var queries: [UInt32: Query] = [:]
    private var waiting: [Waiting] = []
    private var sentCount = 0
    /// The request of which parts have arrived.
    private var partial: (number: UInt32, bytes: [UInt8])?
    private var lastNumber: UInt32 = 0
    private var receivedBytes = 0
    private var pongs = 0
    private var hasEnded = false

    var isEmpty: Bool { queries.isEmpty && partial == nil }

    // MARK: From the coordinator

    mutating func receive(_ frame: QueryFrame) -> Step {
        switch frame.kind {
        case .part: return append(frame)
        case .request:
            if case .invalid(let flaw) = append(frame) { return .invalid(flaw) }
            let request = partial?.bytes ?? []
            partial = nil
            guard queries.count < QueryLimits.queriesMax else {
                return .invalid("too many queries")
            }
            queries[frame.number] = Query()
            return .begin(number: frame.number, request: request)
        case .credit:
            guard frame.number <= lastNumber, partial?.number != frame.number else {
                return .invalid("a credit for no query")
            }
            guard let query = queries[frame.number] else { return .none }
            // More would let it exceed the bound of what waits here.
            guard query.credit < RowMerge.creditMax else { return .invalid("too many credits") }
            queries[frame.number]?.credit += 1
            return query.call.map { .credit($0) } ?? .none
        case .cancel: return cancel(frame.number)
        case .ping:
            // A coordinator sends few pings, so many at once are no attempt to find a silent node.
            guard pongs < QueryLimits.queriesMax else { return .invalid("too many pings") }
            pongs += 1
            return .none
        case .reply, .received, .pong: return .none
        }
    }

    private mutating func append(_ frame: QueryFrame) -> Step {
        if partial != nil {
            guard partial?.number == frame.number else {
                return .invalid("a request within another one")
            }
        } else {
            guard frame.number > lastNumber else { return .invalid("a request a second time") }
            lastNumber = frame.number
            partial = (frame.number, [])
        }
        let count = (partial?.bytes.count ?? 0) + frame.payload.count
        guard count <= QueryLimits.requestBytesMax else { return .invalid("a request too large") }
        partial?.bytes.append(contentsOf: frame.payload.buffer)
        receivedBytes += frame.payload.count
        return .none
    }

    private mutating func cancel(_ number: UInt32) -> Step {
        guard number <= lastNumber else { return .invalid("the end of no query") }
        if partial?.number == number { partial = nil }
        waiting.removeFirst(sentCount)
        sentCount = 0
        waiting.removeAll { $0.number == number }
        guard let query = queries.removeValue(forKey: number) else { return .none }
        return query.call.map { .cancel($0) } ?? .none
    }

    // MARK: From this node

    /// Keeps what steers a query; returns false if the query has ended already.
    mutating func begin(_ number: UInt32, _ call: any QueryCall) -> Bool {
        guard queries[number] != nil else { return false }
        queries[number]?.call = call
        return true
    }

    enum Admission {
        case accepted
        /// The query has ended.
        case ignored
        /// The query has no credit for it.
        case exceeding
    }

    /// Queues a reply, encoded as a frame.
    mutating func reply(_ number: UInt32, _ reply: QueryReply, _ frame: [UInt8]) -> Admission {
        guard let query = queries[number], !hasEnded else { return .ignored }
        switch reply {
        case .start: break
        case .rows, .groups:
            guard query.credit > 0 else { return .exceeding }
            queries[number]?.credit -= 1
        case .end, .failed, .moved, .notReady: queries[number] = nil
        }
        waiting.append(Waiting(number: number, frame: frame))
        return .accepted
    }

    /// What steers a query.
    func call(_ number: UInt32) -> (any QueryCall)? { queries[number]?.call }

    /// Ends all queries; returns what steers them, in their order.
    mutating func end() -> [any QueryCall] {
        hasEnded = true
        let calls = queries.sorted { $0.key < $1.key }.compactMap(\.value.call)
        queries = [:]
        waiting = []
        sentCount = 0
        partial = nil
        return calls
    }

    // MARK: Sending

    /// Appends what waits, at most one turn's worth; returns whether something is left.
    mutating func write(to output: ByteWriter) -> Bool {
        for _ in 0..<pongs { QueryFrame.append(.pong, to: output) }
        pongs = 0
        if receivedBytes > 0 {
            withUnsafeBytes(of: UInt32(receivedBytes).bigEndian) {
                QueryFrame.append(.received, payload: ByteView($0), to: output)
            }
            receivedBytes = 0
        }
        while sentCount < waiting.count, output.count < QueryLimits.turnBytes {
            output.append(waiting[sentCount].frame)
            sentCount += 1
        }
        let hasMore = sentCount < waiting.count
        if !hasMore || sentCount >= 64 {
            waiting.removeFirst(sentCount)
            sentCount = 0
        }
        return hasMore
    }
}
