internal import Bytes
package import Vocabulary

/// Where TAP connections of one bucket begin if the client asks for no history.
///
/// TAP itself has no positions. Without these a client without history would miss the changes between
/// two connections, and those of a vBucket that moved here before the client connected.
///
/// - Kept positions are those of a connection that this node closed. A client is its login and its
///   host. Two closed connections of a client are merged to the lower positions.
/// - Noted positions are those of copies that came to this node or were promoted here, for every
///   client (`DocumentService.noteCreated`, `noteActivated`).
/// - Both stay for a minute. The lower position wins: changes are repeated, not lost.
package final class TapPositions: Sendable {
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
        var positions: [VBucketID: Position]
        var expiry: UInt64
    }

    private struct Noted {
        var position: Position
        var expiry: UInt64
    }

    package static let keptNanoseconds: UInt64 = 60_000_000_000
    private static let clientsMax = 64

    private let kept = Guarded<[Client: Kept]>([:])
    private let noted = Guarded<[VBucketID: Noted]>([:])

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
                positions: older.merging(positions, uniquingKeysWith: Position.lower),
                expiry: now + TapPositions.keptNanoseconds
            )
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
            guard let found = kept[client], found.expiry > now else { return noted }
            return found.positions.merging(noted, uniquingKeysWith: Position.lower)
        }
    }
}
