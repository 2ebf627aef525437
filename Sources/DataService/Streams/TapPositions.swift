internal import Bytes
internal import Synchronization
package import Vocabulary

/// Where TAP connections of one bucket begin if the client asks for no history.
///
/// TAP itself has no positions. Without these a client without history would miss the changes between
/// two connections, and those of a vBucket that moved here before the client connected.
///
/// - Kept positions are those of a connection, open or closed. A client is its login and its host. A
///   client closes a feed before it closes the connection, and drops what it has not handled, so the
///   kept positions are older than those that the connection has reached (`TapProducer.keepPositions`). Those of
///   several connections of a client are merged to the lower positions.
/// - Noted positions are those of copies that came to this node or were promoted here, for every
///   client (`DocumentService.recordCreated`, `recordActivated`).
/// - Both stay for a minute. The lower position wins: changes are repeated, not lost.
/// - A client reads the map before it connects, and maybe from a node that has an older one. So a node
///   of the map counts as known to clients only `settlingNanoseconds` after it joined.
package final class TapPositions: Sendable {
    /// Distinguishes the connections of a bucket, also closed ones.
    package struct ConnectionNumber: Hashable, Comparable, Sendable {
        fileprivate let value: UInt64

        package static func < (one: Self, other: Self) -> Bool { one.value < other.value }
    }

    /// Where a connection was in one vBucket.
    package struct Position: Hashable, Sendable {
        package var uuid: VBucketUUID
        package var seqno: Seqno

        package init(uuid: VBucketUUID, seqno: Seqno) {
            self.uuid = uuid
            self.seqno = seqno
        }

        /// Before the first change of a vBucket.
        package static let beginning = Position(uuid: VBucketUUID(0), seqno: .zero)

        static func lower(_ one: Position, _ other: Position) -> Position {
            one.seqno <= other.seqno ? one : other
        }
    }

    package struct Client: Hashable, Sendable {
        let login: String
        let host: String

        package init(login: String, host: String) {
            self.login = login
            self.host = host
        }
    }

    private struct Kept {
        let client: Client
        var positions: [VBucketID: Position]
        var expiry: UInt64
    }

    private struct Noted {
        var position: Position
        var expiry: UInt64
    }

    package static let keptNanoseconds: UInt64 = 60_000_000_000
    package static let settlingNanoseconds: UInt64 = 3_000_000_000
    package static let connectionsMax = 64

    /// The positions of each connection.
    private let kept = Guarded<[ConnectionNumber: Kept]>([:])
    private let connections = Atomic<UInt64>(0)
    private let noted = Guarded<[VBucketID: Noted]>([:])
    /// The nodes of the map, and when each joined it; 0 for those of the first map.
    private let joined = Guarded<[NodeNumber: UInt64]?>(nil)

    package init() {}

    package func nextConnection() -> ConnectionNumber {
        ConnectionNumber(value: connections.add(1, ordering: .relaxed).newValue)
    }

    /// Keeps the positions of a connection for a minute from now; later ones replace them.
    ///
    /// If there are `connectionsMax` already, the positions that were kept first are dropped.
    package func keep(
        _ positions: [VBucketID: Position],
        of client: Client,
        connection: ConnectionNumber,
        at now: UInt64
    ) {
        kept.withLock { kept in
            kept = kept.filter { $0.value.expiry > now }
            kept[connection] = Kept(
                client: client,
                positions: positions,
                expiry: now + TapPositions.keptNanoseconds
            )
            guard kept.count > TapPositions.connectionsMax else { return }
            let first = kept.min { ($0.value.expiry, $0.key) < ($1.value.expiry, $1.key) }
            if let first { kept[first.key] = nil }
        }
    }

    /// Notes the positions of copies that were created here, or that become active here.
    ///
    /// There is at most one note of each vBucket, so their number is bounded. A second one within a
    /// minute keeps the lower position, for another minute.
    package func note(_ positions: [VBucketID: Position], at now: UInt64) {
        noted.withLock { noted in
            for (vBucket, position) in positions {
                let note = noted[vBucket].flatMap { $0.expiry > now ? $0 : nil }
                let older = note?.position ?? position
                noted[vBucket] = Noted(
                    position: .lower(older, position),
                    expiry: now + TapPositions.keptNanoseconds
                )
            }
        }
    }

    /// The positions at which a new connection of a client begins; other vBuckets have none.
    package func positions(of client: Client, at now: UInt64) -> [VBucketID: Position] {
        let noted = self.noted.withLock { noted in
            noted = noted.filter { $0.value.expiry > now }
            return noted.mapValues(\.position)
        }
        return kept.withLock { kept in
            kept.values.filter { $0.client == client && $0.expiry > now }.reduce(noted) {
                $0.merging($1.positions, uniquingKeysWith: Position.lower)
            }
        }
    }

    /// Notes the nodes of a new map.
    package func note(nodes: Set<NodeNumber>, at now: UInt64) {
        joined.withLock { joined in
            var times: [NodeNumber: UInt64] = [:]
            for node in nodes {
                if let joined { times[node] = joined[node] ?? now } else { times[node] = 0 }
            }
            joined = times
        }
    }

    /// The nodes that a client knows that reads the map now.
    package func knownNodes(at now: UInt64) -> Set<NodeNumber> {
        joined.withLock { joined in
            let known = (joined ?? [:]).filter {
                $0.value == 0 || $0.value + TapPositions.settlingNanoseconds <= now
            }
            return Set(known.keys)
        }
    }
}
