/// Six nodes, a metadata log, and leases that its voters promise.
///
/// The log is a reduced Raft: appends, votes and acknowledgements happen at random times, or never.
/// The checked invariant: if the deposing of a node is committed and the node has not applied it,
/// the node computes that it has no lease.
struct LeaseWorld {
    static let nodes = 6
    /// A lease by its holder's clock, in hundredths of a tick.
    static let lease: Int32 = 1_000

    struct Beat {
        var isSent = false
        var sentAt: Int32 = 0
        var applied = 0
    }

    struct Reply {
        var isSent = false
        var sentAt: Int32 = 0
        var isGranted = false
        var named = Voters()
    }

    enum Violation {
        /// A node assumes to hold a lease although its deposing is committed.
        case leaseOfTheDeposed
        /// A leader lacks a committed entry: an error of the model itself.
        case forked
    }

    let mistake: LeaseMistake
    /// How long a voter keeps a promise, by its own clock; a clock's rate differs from true time by
    /// up to 1 %.
    let promise: Int32
    var dice: Dice
    var members: [6 of Voter]
    var beats: [36 of Beat]
    var replies: [36 of Reply]
    /// The newest committed deposing of each node.
    var deposedAt: [6 of Int]
    var commit = 1
    /// The terms of the committed entries.
    var committed: [14 of Int32]
    var violation: Violation?
    var isOver = false

    init(seed: UInt64, mistake: LeaseMistake) {
        self.mistake = mistake
        promise = mistake == .noMarginForClocks ? Self.lease : Self.lease * 101 / 99 + 1
        dice = Dice(seed: seed)
        members = .init(repeating: Voter())
        beats = .init(repeating: Beat())
        replies = .init(repeating: Reply())
        deposedAt = .init(repeating: 0)
        committed = .init(repeating: 0)
        let voters = Members(bits: UInt8(1 << (1 + dice.below(Self.nodes)) - 1))
        for node in 0..<Self.nodes {
            members[node].log[0].voters = voters
            members[node].rate = Int32(dice.below(3) - 1)
        }
    }

    static func walk(seed: UInt64, mistake: LeaseMistake = .none) -> Violation? {
        var world = LeaseWorld(seed: seed, mistake: mistake)
        for _ in 0..<1_500 {
            world.step()
            if world.isOver || world.violation != nil { break }
        }
        return world.violation
    }

    mutating func step() {
        let random = dice.next()
        let node = Int(random & 0xffff) % Self.nodes
        let other = Int(random >> 16 & 0xffff) % Self.nodes
        // Nodes 0 and 1 own vBuckets; all nodes may vote.
        let owner = node & 1
        switch Int(random >> 32 & 0xff) {
        case 0..<8: tick()
        case 8..<9: elect(node, reaching: Members(bits: UInt8(random >> 40 & 0x3f)))
        case 9..<60: replicate(node, other, upTo: Int(random >> 40 & 0xff))
        case 60..<100: acknowledge(node)
        case 100..<112: advance(node)
        case 112..<118:
            if members[node].applied < members[node].commit { members[node].applied += 1 }
        case 118..<156: beat(owner, other)
        case 156..<200: answer(other, owner)
        case 200..<240: receive(owner, other)
        case 240..<241: restart(node)
        case 241..<245: depose(other, owner)
        default: change(node, Int(random >> 40 & 0xff))
        }
        for owner in 0..<2 where deposedAt[owner] > members[owner].applied {
            if hasLease(owner) { violation = .leaseOfTheDeposed }
        }
    }

    private mutating func tick() {
        for node in 0..<Self.nodes { members[node].clock += 100 + members[node].rate }
    }

    // MARK: The lease

    private mutating func beat(_ node: Int, _ voter: Int) {
        guard node != voter else { return }
        beats[node * 6 + voter] = Beat(
            isSent: true,
            sentAt: members[node].clock,
            applied: members[node].applied
        )
    }

    private mutating func answer(_ voter: Int, _ node: Int) {
        let beat = beats[node * 6 + voter]
        guard beat.isSent else { return }
        beats[node * 6 + voter].isSent = false
        var isGranted = !members[voter].deposes(node, behind: beat.applied)
        if mistake == .grantsTheDeposed { isGranted = true }
        if isGranted {
            let until = members[voter].clock + promise
            members[voter].promised[node] = max(members[voter].promised[node], until)
        }
        replies[voter * 6 + node] = Reply(
            isSent: true,
            sentAt: beat.sentAt,
            isGranted: isGranted,
            named: members[voter].configuration
        )
    }

    private mutating func receive(_ node: Int, _ voter: Int) {
        let reply = replies[voter * 6 + node]
        guard reply.isSent else { return }
        replies[voter * 6 + node].isSent = false
        let sentAt = mistake == .leaseFromReceipt ? members[node].clock : reply.sentAt
        if reply.isGranted {
            members[node].grantedAt[voter] = max(members[node].grantedAt[voter], sentAt)
        }
        if sentAt >= members[node].repliedAt[voter] {
            members[node].repliedAt[voter] = sentAt
            members[node].named[voter] = reply.named
        }
    }

    /// Whether the node computes that it holds a lease, from the replies it received.
    ///
    /// Counts by the newest configuration that the node knows of: if all changes are joint, that is
    /// enough. The product is stricter: it also requires the newest and the committed configuration
    /// of its own log.
    func hasLease(_ node: Int) -> Bool {
        var granted = Members()
        var newest = members[node].configuration
        let start = members[node].clock - Self.lease
        for voter in 0..<Self.nodes {
            if members[node].grantedAt[voter] > start { granted.insert(voter) }
            guard members[node].repliedAt[voter] > start, mistake != .configurationUnnamed else {
                continue
            }
            let named = members[node].named[voter]
            if named.isNewer(than: newest) { newest = named }
        }
        let isDeposed = members[node].deposes(node, behind: members[node].applied)
        if !isDeposed || mistake == .countsItselfWhenDeposed { granted.insert(node) }
        return newest.isBlocking(granted)
    }
}
