import SyncWire
import Syncing
import Testing

/// Names that tests write as literals.
func channel(_ name: String) -> ChannelName {
    guard let name = ChannelName(name) else { fatalError("\(name) is no channel") }
    return name
}

func channels(_ names: String) -> Set<ChannelName> {
    Set(names.split(separator: " ").map { channel(String($0)) })
}

func grants(_ pairs: KeyValuePairs<String, UInt64>) -> GrantSet<ChannelName> {
    var set = GrantSet<ChannelName>()
    for (name, sequence) in pairs { set.insert(channel(name), at: sequence) }
    return set
}

func user(_ name: String, _ channels: GrantSet<ChannelName> = GrantSet()) -> Principal {
    var user = Principal(PrincipalKey(.user, name))
    user.channels = channels
    return user
}

func revision(_ sequence: UInt64) -> RevisionID? {
    RevisionID(generation: Int(sequence), digest: [UInt8("a".utf8.first ?? 0)])
}

extension ChannelLog {
    /// Records the next version of a document.
    @discardableResult mutating func write(
        _ document: String,
        _ names: String,
        at sequence: UInt64? = nil,
        flags: LogRow.Flags = []
    ) -> UInt64 {
        let next = sequence ?? newest + 1
        let row = LogRow(
            next,
            [UInt8](document.utf8),
            revision: revision(next),
            flags: flags,
            entered: 0
        )
        _ = record(row, in: channels(names))
        return next
    }

    mutating func write(principal id: String, at sequence: UInt64) {
        let row = LogRow(sequence, [UInt8](id.utf8), revision: nil, flags: .principal, entered: 0)
        _ = record(row)
    }

    func page(_ scope: FeedScope, _ request: FeedRequest) -> FeedPage {
        FeedPage(request, of: scope, from: self)
    }

    func page(_ scope: FeedScope, since: SequenceToken = .zero, limit: Int? = nil) -> FeedPage {
        page(scope, FeedRequest(since: since, through: newest, limit: limit))
    }
}

extension FeedPage {
    /// `6:4 d4 -a` for each row: the position, the id, what it left, `x` for a tombstone, `!` for a
    /// revocation.
    var text: String {
        rows.map { row in
            var words = [row.position.description, String(decoding: row.document, as: UTF8.self)]
            words += row.removed.map { "-\($0)" }
            if row.isDeleted { words.append("x") }
            if row.isRevoked { words.append("!") }
            return words.joined(separator: " ")
        }.joined(separator: ", ")
    }
}

extension FeedScope {
    /// A user whose own row is at 0, and so never shown.
    init(_ channels: GrantSet<ChannelName>, _ dialect: GatewayDialect = .first) {
        let user = user("u", channels)
        self.init(user: user, access: Access(of: user, documents: GrantIndex()), dialect: dialect)
    }
}
