internal import Bytes
package import Vocabulary

/// The positions of TAP connections of one bucket that this node closed, for their next connections.
///
/// TAP itself has no positions. Without them a client without history would miss the changes between
/// two connections. A client is its login and its host.
///
/// - Positions stay for a minute and serve each connection of the client in that time. Two
///   closed connections of a client are merged to the lower positions: changes are then repeated.
package final class TapPositions: Sendable {
    /// Where a connection was in one vBucket.
    package struct Position: Hashable, Sendable {
        package var uuid: VBucketUUID
        package var seqno: Seqno

        package init(uuid: VBucketUUID, seqno: Seqno) {
            self.uuid = uuid
            self.seqno = seqno
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
        var positions: [VBucketID: Position]
        var expiry: UInt64
    }

    package static let keptNanoseconds: UInt64 = 60_000_000_000
    private static let clientsMax = 64

    private let kept = Guarded<[Client: Kept]>([:])

    package init() {}

    /// Keeps the positions of a closed connection.
    ///
    /// Beyond 64 clients they are dropped.
    package func keep(_ positions: [VBucketID: Position], of client: Client, at now: UInt64) {
        kept.withLock { kept in
            kept = kept.filter { $0.value.expiry > now }
            guard kept[client] != nil || kept.count < TapPositions.clientsMax else { return }
            let older = kept[client]?.positions ?? [:]
            kept[client] = Kept(
                positions: older.merging(positions) { $0.seqno <= $1.seqno ? $0 : $1 },
                expiry: now + TapPositions.keptNanoseconds
            )
        }
    }

    /// The positions at which a new connection of a client begins; empty if none are kept.
    package func positions(of client: Client, at now: UInt64) -> [VBucketID: Position] {
        kept.withLock { kept in
            guard let found = kept[client], found.expiry > now else { return [:] }
            return found.positions
        }
    }
}
