import Bytes
import Consensus
import Vocabulary

/// A Raft group with a simulated network: tests deliver, lose and reorder its packets.
struct Group {
    struct Packet {
        var message: Message
        /// The state that goes with a snapshot message; otherwise nil.
        var state: Member.Applied?
    }

    var members: [NodeNumber: Member] = [:]
    let numbers: [NodeNumber]
    var network: [Packet] = []
    /// Links that lose all packets, as [sender, receiver].
    var cut: Set<[NodeNumber]> = []
    var checker = Checker()
    let sabotage: Sabotage

    init(
        voters: [UInt16],
        learners: [UInt16] = [],
        others: [UInt16] = [],
        sabotage: Sabotage = .none,
        settings change: (inout RaftSettings) -> Void = { _ in }
    ) {
        numbers = (voters + learners + others).sorted().map { NodeNumber($0) }
        self.sabotage = sabotage
        let configuration = VoterConfiguration(
            voters: voters.map { NodeNumber($0) },
            learners: learners.map { NodeNumber($0) }
        )
        for number in numbers {
            var settings = RaftSettings(node: number)
            settings.electionTicks = 10
            change(&settings)
            // A node that joins later has an empty configuration.
            let isMember = configuration.contains(number)
            let snapshot = SnapshotDescription(
                position: .zero,
                configuration: isMember ? configuration : VoterConfiguration(voters: [])
            )
            members[number] = Member(settings, .init(snapshot: snapshot), sabotage: sabotage)
        }
    }

    subscript(number: UInt16) -> Raft { member(NodeNumber(number)).raft }

    func member(_ number: NodeNumber) -> Member {
        guard let member = members[number] else { preconditionFailure("no member \(number)") }
        return member
    }

    // MARK: Stepping

    /// Steps one member; its messages enter the network, its writes wait for the disk.
    @discardableResult
    mutating func step(_ number: NodeNumber, _ event: RaftEvent) -> Ready? {
        guard members[number]?.isUp == true, let ready = members[number]?.step(event) else {
            return nil
        }
        for message in ready.messages { send(message) }
        if let member = members[number] { checker.check(member, ready, among: self) }
        if sabotage == .acknowledgesBeforeSync, let write = ready.write {
            return step(number, .stored(write.number))
        }
        return ready
    }

    @discardableResult
    mutating func step(_ number: UInt16, _ event: RaftEvent) -> Ready? {
        step(NodeNumber(number), event)
    }

    private mutating func send(_ message: Message) {
        var packet = Packet(message: message)
        switch message.body {
        case .snapshot:
            // The driver sends its newest snapshot.
            let sender = member(message.from)
            packet.message.body = .snapshot(sender.disk.snapshot)
            packet.state = sender.snapshotState
        case .voteRequest(var request)
        where request.isPreVote && sabotage == .preVoteWithoutLogCheck:
            request.last = LogPosition(term: .max, index: .max)
            packet.message.body = .voteRequest(request)
        default: break
        }
        network.append(packet)
    }

    mutating func deliver(_ packet: Packet) {
        let message = packet.message
        let isUp = members[message.to]?.isUp == true
        guard isUp, !cut.contains([message.from, message.to]) else { return drop(packet) }
        members[message.to]?.arriving = packet.state
        step(message.to, .received(message))
        if packet.state != nil {
            step(message.from, .snapshotSent(to: message.to, isDelivered: true))
        }
    }

    /// Drops a packet.
    ///
    /// For a snapshot, the sender's driver reports the failed delivery.
    mutating func drop(_ packet: Packet) {
        guard packet.state != nil else { return }
        let message = packet.message
        step(message.from, .snapshotSent(to: message.to, isDelivered: false))
    }

    mutating func sync(_ number: NodeNumber, _ count: Int = .max) {
        guard let event = members[number]?.sync(count) else { return }
        // With this sabotage the write was reported as stored before.
        if sabotage != .acknowledgesBeforeSync { step(number, event) }
    }

    // MARK: For scripts

    /// Delivers packets and syncs disks until no packet and no write is left.
    mutating func runUntilIdle() {
        for _ in 0..<10_000 {
            for number in numbers { sync(number) }
            if !network.isEmpty {
                deliver(network.removeFirst())
            } else if members.values.allSatisfy({ !$0.isUp || $0.pending.isEmpty }) {
                return
            }
        }
        preconditionFailure("the group does not become idle")
    }

    mutating func tick(_ number: UInt16, _ count: Int = 1, dice: UInt32 = 0) {
        for _ in 0..<count {
            step(number, .tick(dice: dice))
            runUntilIdle()
        }
    }

    /// Ticks the member until it no longer ignores vote requests, but not until it campaigns.
    mutating func passElectionTimeout(_ number: UInt16) { tick(number, 10, dice: 9) }

    mutating func elect(_ number: UInt16) {
        step(number, .campaign)
        runUntilIdle()
    }

    /// Elects the member and drops every message that it sends as leader.
    mutating func electAndDropMessages(_ number: UInt16) {
        step(number, .campaign)
        for _ in 0..<100 where !self[number].isLeader {
            for number in numbers { sync(number) }
            if !network.isEmpty { deliver(network.removeFirst()) }
        }
        network = []
    }

    mutating func propose(_ number: UInt16, _ text: String) {
        step(number, .propose([Array(text.utf8)]))
        runUntilIdle()
    }

    mutating func isolate(_ number: UInt16) {
        for other in numbers where other != NodeNumber(number) {
            cut.insert([NodeNumber(number), other])
            cut.insert([other, NodeNumber(number)])
        }
    }

    mutating func heal() { cut = [] }

    mutating func crash(_ number: UInt16) { members[NodeNumber(number)]?.isUp = false }

    mutating func restart(_ number: UInt16) {
        members[NodeNumber(number)]?.restart()
        checker.recordRestart(NodeNumber(number))
    }
}
