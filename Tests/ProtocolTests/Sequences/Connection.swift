/// A message from an owner to a collector.
struct Message {
    enum Kind: UInt8 {
        case row
        case mark
        /// The grant of the principal, at the begin of a stream.
        case grant
    }

    var kind = Kind.row
    var key: Int8 = 0
    /// Of a row, the number of its stream; of a mark, the highest number that it covers.
    var stream: Int16 = 0
    /// Of a row, its sequence; of a mark, the counter.
    var sequence: Int32 = 0
    var place: Int16 = 0
    var granted: Int32 = 0
    /// Of a mark: the map of its node.
    var revision: Int16 = 0
}

/// The ordered connection from an owner to a collector, with the owner's streams on it.
struct Connection {
    static let messagesMax = 32

    private var messages: [Message]
    private var head = 0
    private(set) var count = 0
    /// The connection is cut; the collector still reads what has arrived.
    private(set) var isBroken = false
    /// The number of each vBucket's stream at the owner; 0 if it is not open.
    var stream: [3 of Int16]
    /// The highest number of a stream that was opened on the connection: in order of number.
    var opened: Int16 = 0
    /// The seqno through which each stream has sent.
    var sent: [3 of Int16]

    init() {
        messages = .init(repeating: Message(), count: Self.messagesMax)
        stream = .init(repeating: 0)
        sent = .init(repeating: 0)
    }

    var room: Int { isBroken ? 0 : Self.messagesMax - count }
    var first: Message { messages[head] }

    mutating func append(_ message: Message) {
        if room == 0 { return }
        messages[(head + count) % Self.messagesMax] = message
        count += 1
    }

    mutating func removeFirst() {
        head = (head + 1) % Self.messagesMax
        count -= 1
    }

    /// Cuts the connection; the last messages are lost.
    mutating func cut(keeping kept: Int) {
        isBroken = true
        count = min(count, kept)
        stream = .init(repeating: 0)
        opened = 0
    }

    /// Opens a new connection.
    mutating func renew() {
        isBroken = false
        count = 0
        stream = .init(repeating: 0)
        opened = 0
    }
}
