/// An entry of the agreed log: empty, the deposing of a node, or a voter configuration.
struct Entry: Equatable {
    var term: Int32 = 0
    /// The node that loses its right to write; -1 for none.
    var deposes: Int8 = -1
    /// The voters, and in a joint configuration the previous voters.
    var voters = Members()
    var outgoing = Members()

    var isConfiguration: Bool { !voters.isEmpty }
    /// Whether leases need the promises of additional voters from this entry on.
    ///
    /// The end of a joint configuration needs no additional ones: one of its two halves remains.
    var asksForMore: Bool { !outgoing.isEmpty }
}

/// A voter configuration, and the entry that introduced it.
struct Voters {
    var term: Int32 = 0
    var index = 0
    var voters = Members()
    var outgoing = Members()

    func isNewer(than other: Voters) -> Bool { (term, index) > (other.term, other.index) }

    /// Whether `members` contain a majority of the voters; of both halves in a joint configuration.
    func isQuorum(_ members: Members) -> Bool {
        Self.isMajority(members, of: voters)
            && (outgoing.isEmpty || Self.isMajority(members, of: outgoing))
    }

    /// Whether every quorum contains one of `members`.
    func isBlocking(_ members: Members) -> Bool {
        Self.isBlocking(members, voters)
            && (outgoing.isEmpty || Self.isBlocking(members, outgoing))
    }

    static func isMajority(_ members: Members, of half: Members) -> Bool {
        members.intersection(half).count >= half.count / 2 + 1
    }

    private static func isBlocking(_ members: Members, _ half: Members) -> Bool {
        members.intersection(half).count >= half.count - half.count / 2
    }
}

enum LeaseMistake: CaseIterable {
    case none
    case deposingNotWithheld
    case configurationNotWithheld
    case configurationUnnamed
    case changesAtOnce
    case restartForgetsPromises
    case noMarginForClocks
    case leaseFromReceipt
    case countsItselfWhenDeposed
    case grantsTheDeposed
}

/// A node: voter and candidate of the metadata log, and owner of a vBucket.
struct Voter {
    static let entriesMax = 14

    var term: Int32 = 0
    var isLeader = false
    var log: [14 of Entry]
    var count = 1
    var commit = 1
    var applied = 1
    /// In hundredths of a tick; up to 1 % faster or slower than the clocks of other nodes (`rate`).
    var clock: Int32 = 0
    var rate: Int32 = 0

    // As a voter.
    /// The end of the lease promise to each node, by this voter's clock; until then the voter
    /// withholds acknowledgements of entries that depose that node.
    var promised: [6 of Int32]
    /// The latest end of all promises that were made before each entry was appended.
    var holds: [14 of Int32]
    var restartHold: Int32 = 0
    /// The leader whose entries were appended, and the number of entries that match its log.
    var leader = -1
    var verified = 0

    // As the leader.
    var acknowledged: [6 of Int]

    // As an owner.
    /// The sending time of the newest beat that each voter granted.
    var grantedAt: [6 of Int32]
    var repliedAt: [6 of Int32]
    var named: [6 of Voters]

    init() {
        log = .init(repeating: Entry())
        promised = .init(repeating: 0)
        holds = .init(repeating: 0)
        acknowledged = .init(repeating: 0)
        grantedAt = .init(repeating: .min)
        repliedAt = .init(repeating: .min)
        named = .init(repeating: Voters())
    }

    var lastTerm: Int32 { log[count - 1].term }

    /// The newest configuration in its log.
    var configuration: Voters {
        var place = count - 1
        while !log[place].isConfiguration { place -= 1 }
        let entry = log[place]
        return Voters(
            term: entry.term,
            index: place + 1,
            voters: entry.voters,
            outgoing: entry.outgoing
        )
    }

    /// Whether the log has an entry that deposes `node` and that `node` has not applied.
    func deposes(_ node: Int, behind applied: Int) -> Bool {
        var place = applied
        while place < count {
            if log[place].deposes == node { return true }
            place += 1
        }
        return false
    }

    mutating func append(_ entry: Entry) {
        log[count] = entry
        var last: Int32 = 0
        for node in 0..<6 { last = max(last, promised[node]) }
        holds[count] = last
        count += 1
    }

    /// The number of entries that the voter may acknowledge now.
    func acknowledgeable(upTo end: Int, mistake: LeaseMistake) -> Int {
        var place = commit
        while place < end {
            let entry = log[place]
            if entry.deposes >= 0 || entry.asksForMore {
                if clock < restartHold, mistake != .restartForgetsPromises { return place }
            }
            if entry.deposes >= 0, clock < promised[Int(entry.deposes)],
                mistake != .deposingNotWithheld
            {
                return place
            }
            if entry.asksForMore, clock < holds[place], mistake != .configurationNotWithheld {
                return place
            }
            place += 1
        }
        return max(place, min(end, commit))
    }
}
