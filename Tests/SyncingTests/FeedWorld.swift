import Bytes
import SyncWire
import Syncing

/// A database of few documents and channels that changes at random, and what its feeds have to be.
///
/// It keeps whole histories, and computes from them by definition what `FeedWalk` finds in indexes.
struct FeedWorld {
    struct Version {
        let sequence: UInt64
        let channels: Set<ChannelName>
        let isDeleted: Bool
    }

    static let channelNames = ["a", "b", "c", "d"].map { channel($0) }
    static let documents = ["d1", "d2", "d3", "d4", "d5"]

    let dialect: GatewayDialect
    var random: SeededRandom
    var log = ChannelLog()
    var histories: [String: [Version]] = [:]
    var jane = Principal(PrincipalKey(.user, "jane"))
    var roles = [
        "r": Principal(PrincipalKey(.role, "r")), "s": Principal(PrincipalKey(.role, "s")),
    ]
    var grants: [String: DocumentGrants] = [:]
    var index = GrantIndex()
    /// Whether grants only grow.
    let onlyGrants: Bool

    init(seed: UInt64, dialect: GatewayDialect, onlyGrants: Bool = false) {
        random = SeededRandom(seed: seed)
        self.dialect = dialect
        self.onlyGrants = onlyGrants
    }

    var access: Access { Access(of: jane, documents: index) { roles[$0] } }

    var scope: FeedScope {
        FeedScope(
            user: jane,
            access: access,
            roles: roles.values.map {
                FeedScope.HeldRole($0, Access(of: $0, documents: index))
            },
            dialect: dialect
        )
    }

    mutating func number(below count: Int) -> Int { Int(random.next() % UInt64(count)) }

    mutating func someChannels() -> Set<ChannelName> {
        let bits = random.next() & random.next()
        return Set(
            Self.channelNames.enumerated().filter { bits >> $0.offset & 1 == 1 }.map(\.element)
        )
    }

    /// One random change.
    mutating func step() {
        // Grants that only grow are soon complete.
        switch number(below: onlyGrants ? 30 : 10) {
        case 0: changeUser()
        case 1: changeRole(number(below: 2) == 0 ? "r" : "s")
        case 2: changeGrants(of: "grant\(number(below: 2))")
        default: writeDocument()
        }
    }

    mutating func writeDocument() {
        let id = Self.documents[number(below: Self.documents.count)]
        let isDeleted = number(below: 6) == 0
        let channels = isDeleted && number(below: 2) == 0 ? [] : someChannels()
        let sequence = log.newest + 1
        let flags: LogRow.Flags = isDeleted ? .deleted : []
        let row = LogRow(
            sequence,
            [UInt8](id.utf8),
            revision: revision(sequence),
            flags: flags,
            entered: 0
        )
        _ = log.record(row, in: channels)
        histories[id, default: []].append(
            Version(sequence: sequence, channels: channels, isDeleted: isDeleted)
        )
    }

    private mutating func changeUser() {
        let sequence = log.newest + 1
        var names = someChannels()
        if number(below: 8) == 0 { names.insert(.all) }
        var roleNames = Set(["r", "s"].filter { _ in number(below: 2) == 0 })
        if onlyGrants {
            names.formUnion(jane.channels.names)
            roleNames.formUnion(jane.roles.names)
        }
        changeAccess(at: sequence) { world in
            world.jane.channels.replace(with: names, at: sequence)
            world.jane.roles.replace(with: roleNames, at: sequence)
            world.jane.sequence = sequence
        }
        log.write(principal: "_user/jane", at: sequence)
    }

    private mutating func changeRole(_ name: String) {
        let sequence = log.newest + 1
        var names = someChannels()
        if onlyGrants { names.formUnion(roles[name]?.channels.names ?? []) }
        changeAccess(at: sequence) { world in
            world.roles[name]?.channels.replace(with: names, at: sequence)
        }
        log.write(principal: "_role/\(name)", at: sequence)
    }

    private mutating func changeGrants(of id: String) {
        let sequence = log.write(id, "")
        let old = grants[id] ?? DocumentGrants()
        var outcome = SyncOutcome()
        let keys = [PrincipalKey(.user, "jane"), PrincipalKey(.role, "r")]
        for key in keys {
            outcome.access[key] = someChannels()
            if onlyGrants { outcome.access[key]?.formUnion(old.channels[key]?.names ?? []) }
        }
        if number(below: 2) == 0 || onlyGrants { outcome.roles[keys[0]] = ["s"] }
        var new = old
        new.replace(with: outcome, at: sequence)
        changeAccess(at: sequence) { world in
            world.grants[id] = new
            _ = world.index.replace(old, with: new)
        }
    }

    private mutating func changeAccess(at sequence: UInt64, _ change: (inout FeedWorld) -> Void) {
        let before = access
        let rolesBefore = roles.mapValues { Access(of: $0, documents: index) }
        change(&self)
        jane.recordLosses(from: before, to: access, at: sequence)
        for (name, old) in rolesBefore {
            guard let role = roles[name] else { continue }
            let new = Access(of: role, documents: index)
            roles[name]?.recordLosses(from: old, to: new, at: sequence)
        }
    }

    /// The channels in which a version of a document has a row: of `*` and of those that it is in, only
    /// if it is the newest one in the channel; of those that it left, if it has not come back.
    private func places(of id: String) -> [(sequence: UInt64, channel: ChannelName, left: Bool)] {
        let versions = histories[id] ?? []
        var places: [(UInt64, ChannelName, Bool)] = []
        for name in Self.channelNames {
            guard let last = versions.lastIndex(where: { $0.channels.contains(name) }) else {
                continue
            }
            let hasLeft = last + 1 < versions.count
            places.append((versions[hasLeft ? last + 1 : last].sequence, name, hasLeft))
        }
        if let last = versions.last { places.append((last.sequence, .all, false)) }
        return places
    }

    /// The rows of the whole feed of 1.4, by definition, without those of principals.
    func expectedRows() -> [String] {
        let granted = access.allChannels
        var rows: [(position: SequenceToken, text: String)] = []
        for (id, versions) in histories {
            let places = places(of: id).filter { granted[$0.channel] != nil }
            for version in versions {
                let own = places.filter { $0.sequence == version.sequence }.map { place in
                    let start = granted[place.channel] ?? 0
                    let isLate = start > 1 && start > version.sequence
                    let trigger = isLate ? start : 0
                    return (
                        SequenceToken(version.sequence, trigger: trigger), place.channel, place.left
                    )
                }
                let live = own.filter { !$0.2 }.map(\.0)
                // Each grant of a channel that the version left, and the first of one that it is in.
                let left = Set(own.filter { $0.2 }.map(\.0)).subtracting(live)
                for position in left.union([live.min()].compactMap(\.self)) {
                    let removed = own.filter { $0.2 && $0.0 == position }.map { " -\($0.1)" }
                        .sorted()
                    let mark = version.isDeleted ? " x" : ""
                    rows.append((position, "\(position) \(id)\(removed.joined())\(mark)"))
                }
            }
        }
        return rows.sorted { $0.position < $1.position }.map(\.text)
    }

    /// The documents that the user may see, with the sequence of their newest version.
    var visible: [String: UInt64] {
        var found: [String: UInt64] = [:]
        for (id, versions) in histories {
            guard let last = versions.last, !last.isDeleted,
                access.permits(reading: last.channels)
            else { continue }
            found[id] = last.sequence
        }
        return found
    }
}

/// A device: what it has of a database after the pages that it pulled.
struct FeedDevice {
    var since = SequenceToken.zero
    /// The sequences of the versions of live documents that the device has.
    var documents: [String: UInt64] = [:]
    /// The rows that were received, with their versions.
    var received: [String] = []

    mutating func pull(_ world: FeedWorld, limit: Int?) {
        var request = FeedRequest(since: since, through: world.log.newest, limit: limit)
        request.sendsRevocations = true
        let page = world.log.page(world.scope, request)
        for row in page.rows {
            let id = String(decoding: row.document, as: UTF8.self)
            if !FeedWorld.documents.contains(id) { continue }
            received.append("\(id) \(row.position.sequence)")
            if row.isRemoval || row.isRevoked || row.isDeleted {
                documents[id] = nil
            } else {
                // A late row may be of an older version than the device has.
                documents[id] = max(documents[id] ?? 0, row.position.sequence)
            }
        }
        since = limit == nil ? page.next : page.last
    }
}
