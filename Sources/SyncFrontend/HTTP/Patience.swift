/// How long a connection waits, and for what.
///
/// Deadlines count the ticks of the server's table, so that setting one costs no timer and no clock.
struct Patience {
    enum Kind {
        /// The server works; the client may wait as long as it wants.
        case none
        /// The end of a request's head.
        case head
        /// The next request.
        case idle
        /// The next part of a body.
        case body
        /// The end of a body that no handler needs.
        case drain
        /// That the client reads.
        case send
        /// The client's close.
        case linger
    }

    private(set) var kind = Kind.none
    /// The tick at which the wait is over.
    private(set) var deadline = Int.max
    /// The bytes that waited to be sent at the last deadline.
    private var bufferedBytes = Int.max
    private let table: ConnectionTable

    init(_ table: ConnectionTable) {
        self.table = table
    }

    mutating func begin(_ kind: Kind, _ seconds: Int) {
        self.kind = kind
        bufferedBytes = .max
        // The next tick may come at once.
        deadline = table.tick + seconds + 1
    }

    mutating func end() {
        kind = .none
        deadline = .max
    }

    /// Begins again if fewer bytes wait to be sent than at the last deadline; returns whether.
    mutating func note(buffered: Int, _ seconds: Int) -> Bool {
        guard buffered < bufferedBytes else { return false }
        bufferedBytes = buffered
        deadline = table.tick + seconds + 1
        return true
    }
}

/// The open connections of a server, and the clock of their deadlines.
final class ConnectionTable {
    private(set) var connections: [GatewayConnection] = []
    /// Seconds since the first connection; stands still while there is none.
    private(set) var tick = 0
    /// Whether the next second is on its way.
    var isTicking = false

    func add(_ connection: GatewayConnection) {
        connection.index = connections.count
        connections.append(connection)
    }

    func remove(_ connection: GatewayConnection) {
        let last = connections.removeLast()
        guard last !== connection else { return }
        connections[connection.index] = last
        last.index = connection.index
    }

    /// Closes what has waited for too long.
    func advance() {
        tick += 1
        // Closing one changes the list.
        for expired in connections.filter({ $0.patience.deadline <= tick }) { expired.expire() }
    }
}
