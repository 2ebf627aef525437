import Bytes
import Consensus
import Vocabulary

/// A random walk of a group through all events and faults, determined by one seed.
struct Walk {
    var group: Group
    var dice: SeededRandom
    var reads: UInt64 = 0
    var proposals: UInt64 = 0
    let changesMembers: Bool
    /// Several members campaign at once, and voters crash.
    let isStormy: Bool

    init(seed: UInt64, sabotage: Sabotage = .none) {
        var dice = SeededRandom(seed: seed)
        let size = UInt16(3 + dice.next() % 3)
        changesMembers = dice.next() % 2 == 0
        isStormy = dice.next() % 4 == 0
        group = Group(
            voters: Array(1...min(size, 4)),
            others: size == 5 ? [5] : [],
            sabotage: sabotage
        ) { settings in
            settings.appendBytesMax = 64
            settings.appendsInFlightMax = 3
            settings.entriesKept = 3
        }
        self.dice = dice
    }

    /// Runs up to `steps` steps.
    ///
    /// Returns the first violation, or nil if there is none.
    mutating func run(steps: Int) -> Checker.Violation? {
        for place in 0..<steps {
            step()
            if place % 50 == 0 { group.checker.checkMatching(group) }
            if group.checker.violation != nil { break }
        }
        return group.checker.violation
    }

    private mutating func below(_ count: Int) -> Int { Int(dice.next() >> 33) % count }

    private mutating func step() {
        let number = group.numbers[below(group.numbers.count)]
        if isStormy {
            switch below(256) {
            case 0..<48: return crashAfterVote()
            case 48..<52: return campaignTogether(with: number)
            default: break
            }
        }
        switch below(256) {
        case 0..<120: deliver()
        case 120..<155: group.step(number, .tick(dice: UInt32(truncatingIfNeeded: dice.next())))
        case 155..<205: group.sync(number, 1 + below(3))
        case 205..<225: propose(number)
        case 225..<229: crash(number)
        case 229..<234: takeSnapshot(number)
        case 234..<242: read(number)
        case 242..<244: cutOrHeal(number)
        case 244..<248: change(number)
        case 248..<250: transfer(number)
        case 250..<253: withhold(number)
        case 253..<254: group.step(number, .unreachable(group.numbers[below(group.numbers.count)]))
        default: group.step(number, .tick(dice: 0))
        }
    }

    /// Delivers a random packet: out of order, sometimes twice, sometimes not at all.
    private mutating func deliver() {
        guard !group.network.isEmpty else { return }
        if group.network.count > 200 {
            for _ in 0..<100 { group.drop(group.network.removeFirst()) }
        }
        let place = below(min(group.network.count, 12))
        let packet = group.network[place]
        let fate = below(32)
        if fate != 0 { group.network.remove(at: place) }
        if fate == 1 { return group.drop(packet) }
        group.deliver(packet)
    }

    private mutating func propose(_ number: NodeNumber) {
        proposals += 1
        let bytes = Array("command \(proposals)".utf8)
        group.step(number, .propose([bytes]))
    }

    /// Several members campaign at once: votes split, and a voter that forgot its vote could vote
    /// twice.
    private mutating func campaignTogether(with number: NodeNumber) {
        for other in group.numbers where other != number && below(2) == 0 {
            // A delayed `timeoutNow` of a leader: it starts a campaign without pre-vote.
            let term = group.member(other).raft.term
            let call = Message(from: number, to: other, term: term, body: .timeoutNow)
            group.step(other, .received(call))
        }
    }

    /// Crashes a member that has voted while a request of another candidate of that term is on its
    /// way.
    private mutating func crashAfterVote() {
        let voter = group.numbers.first { number in
            let member = group.member(number)
            guard let vote = member.raft.vote, vote != number, member.raft.leader == nil,
                member.pending.isEmpty
            else { return false }
            return group.network.contains { packet in
                let message = packet.message
                guard case .voteRequest = message.body else { return false }
                return message.to == number && message.from != vote
                    && message.term == member.raft.term
            }
        }
        if let voter { crash(voter) }
    }

    private mutating func crash(_ number: NodeNumber) {
        // Some of the pending writes may have reached the disk, but always the first ones.
        let kept = below(3)
        if kept > 0 { _ = group.members[number]?.sync(kept) }
        group.members[number]?.restart()
        group.checker.recordRestart(number)
    }

    private mutating func takeSnapshot(_ number: NodeNumber) {
        guard let event = group.members[number]?.takeSnapshot() else { return }
        group.step(number, event)
        group.members[number]?.prune()
    }

    private mutating func read(_ number: NodeNumber) {
        reads += 1
        group.checker.recordRead(reads)
        group.step(number, .read(context: reads))
    }

    private mutating func cutOrHeal(_ number: NodeNumber) {
        if below(2) == 0 || !group.cut.isEmpty { return group.heal() }
        for other in group.numbers where other != number {
            group.cut.insert([number, other])
            // In half of the cases the link fails in one direction only.
            if below(2) == 0 { group.cut.insert([other, number]) }
        }
    }

    private mutating func change(_ number: NodeNumber) {
        guard changesMembers else { return }
        var steps: [ConfigurationChange.Step] = []
        for _ in 0..<1 + below(2) {
            let other = group.numbers[below(group.numbers.count)]
            switch below(4) {
            case 0: steps.append(.remove(other))
            case 1: steps.append(.addLearner(other))
            default: steps.append(.addVoter(other))
            }
        }
        let isLeaving = group.member(number).raft.configuration.isJoint
        let change = ConfigurationChange(
            steps,
            transition: below(2) == 0 ? .automatic : .jointUntilLeft
        )
        group.step(number, .change(isLeaving ? .leave : change))
    }

    private mutating func transfer(_ number: NodeNumber) {
        group.step(number, .transfer(to: group.numbers[below(group.numbers.count)]))
    }

    private mutating func withhold(_ number: NodeNumber) {
        let last = group.member(number).raft.log.lastIndex
        let from: LogIndex? = below(2) == 0 ? nil : last + 1 - min(UInt64(below(3)), last)
        group.step(number, .withhold(from: from))
    }

    /// Ends all faults.
    ///
    /// Returns after how many rounds of ticks all members of the configuration have applied a new
    /// command, or nil if they have not within `rounds`.
    mutating func recover(rounds: Int) -> Int? {
        group.heal()
        for number in group.numbers { group.step(number, .withhold(from: nil)) }
        for round in 0..<rounds {
            for number in group.numbers {
                group.step(number, .tick(dice: UInt32(truncatingIfNeeded: dice.next())))
            }
            group.runUntilIdle()
            guard
                let leader = group.numbers.map({ group.member($0).raft }).first(where: {
                    $0.isLeader
                })
            else { continue }
            // Propose only once everything is committed: a new entry would make the leader resend
            // what was lost, and hide that it does not do so by itself.
            guard leader.log.commit == leader.log.lastIndex else { continue }
            if leader.configuration.isJoint {
                group.step(leader.node, .change(.leave))
                group.runUntilIdle()
                continue
            }
            let goal = group.member(leader.node).raft.log.lastIndex + 1
            propose(leader.node)
            group.runUntilIdle()
            let states = leader.configuration.members.map { group.member($0).state }
            if goal > 1, states.allSatisfy({ $0.index >= goal && $0 == states[0] }) { return round }
        }
        return nil
    }
}
