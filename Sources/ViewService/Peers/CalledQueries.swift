internal import Bytes
internal import Indexing

/// The queries that a coordinator has at one node, and what waits to be sent for them; decides, and is
/// used under a lock.
///
/// - A query ends once: by a reply that ends it, by its cancellation, or with the connection.
/// - Frames for a query that has ended are ignored: they were sent before its cancellation arrived.
/// - Requests are sent one after the other, in parts, as the window allows; credits and cancellations
///   overtake them.
struct CalledQueries: Sendable {
    typealias Event = @Sendable (QueryNodeEvent) -> Void

    private struct Query {
        let event: Event
        /// Empty once it is sent.
        var request: [UInt8]
        var sentBytes = 0
        /// Batches that the node may send.
        var credit = RowMerge.creditMax

        var isSent: Bool { request.isEmpty }
    }

    enum Addition {
        case added(UInt32)
        /// The node has as many queries of this one as it may have.
        case full
        /// The connection has ended.
        case ended
    }

    /// The effect of a reply.
    enum Delivery {
        case event(Event)
        case ignored
        /// The text completes "it sent ...".
        case invalid(String)
    }

    private var queries: [UInt32: Query] = [:]
    /// Requests that are not sent completely, in order.
    private var unsent: [UInt32] = []
    private var controls: [(kind: QueryFrame.Kind, number: UInt32)] = []
    private var lastNumber: UInt32
    private var unacknowledgedBytes = 0
    private var hasEnded = false

    init(lastNumber: UInt32 = 0) {
        self.lastNumber = lastNumber
    }

    var isEmpty: Bool { queries.isEmpty }

    // MARK: For the coordinator

    mutating func add(_ request: [UInt8], _ event: @escaping Event) -> Addition {
        guard !hasEnded, lastNumber < .max else { return .ended }
        guard queries.count < QueryLimits.queriesMax else { return .full }
        lastNumber += 1
        queries[lastNumber] = Query(event: event, request: request)
        unsent.append(lastNumber)
        return .added(lastNumber)
    }

    /// Returns whether there is something to send: a credit belongs to a batch that has arrived.
    mutating func addCredit(_ number: UInt32) -> Bool {
        guard let query = queries[number], query.credit < RowMerge.creditMax else { return false }
        queries[number]?.credit += 1
        controls.append((.credit, number))
        return true
    }

    /// Returns whether there is something to send.
    mutating func cancel(_ number: UInt32) -> Bool {
        guard let query = queries.removeValue(forKey: number) else { return false }
        if !query.isSent { unsent.removeAll { $0 == number } }
        guard query.isSent || query.sentBytes > 0 else { return false }
        controls.append((.cancel, number))
        return true
    }

    mutating func ping() { controls.append((.ping, 0)) }

    /// Ends all queries; returns their receivers in the order of the queries.
    mutating func end() -> [Event] {
        hasEnded = true
        let events = queries.sorted { $0.key < $1.key }.map(\.value.event)
        queries = [:]
        unsent = []
        controls = []
        return events
    }

    // MARK: For the connection

    /// A reply has arrived.
    mutating func deliver(_ reply: QueryReply, to number: UInt32) -> Delivery {
        guard let query = queries[number] else {
            return number <= lastNumber ? .ignored : .invalid("a reply to no request")
        }
        guard query.isSent else { return .invalid("a reply before the end of the request") }
        switch reply {
        case .start: break
        case .rows, .groups:
            guard query.credit > 0 else { return .invalid("more rows than requested") }
            queries[number]?.credit -= 1
        case .end, .failed, .moved, .notReady: queries[number] = nil
        }
        return .event(query.event)
    }

    /// Returns whether so many bytes can have arrived.
    mutating func acknowledge(_ bytes: Int) -> Bool {
        guard bytes <= unacknowledgedBytes else { return false }
        unacknowledgedBytes -= bytes
        return true
    }

    /// Appends what may be sent.
    mutating func write(to output: ByteWriter) {
        for (kind, number) in controls { QueryFrame.append(kind, number, to: output) }
        controls = []
        while let number = unsent.first, let query = queries[number] {
            let length = min(query.request.count - query.sentBytes, QueryLimits.partBytesMax)
            guard unacknowledgedBytes + length <= QueryLimits.windowBytes else { return }
            let isLast = query.sentBytes + length == query.request.count
            query.request.withUnsafeBytes { bytes in
                QueryFrame.append(
                    isLast ? .request : .part,
                    number,
                    payload: ByteView(bytes).slice(query.sentBytes, length),
                    to: output
                )
            }
            unacknowledgedBytes += length
            queries[number]?.sentBytes += length
            guard isLast else { continue }
            queries[number]?.request = []
            unsent.removeFirst()
        }
    }
}
