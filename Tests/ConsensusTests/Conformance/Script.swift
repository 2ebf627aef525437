import Consensus
import Vocabulary

/// A value that differs from a script's record.
struct Difference: Hashable, CustomStringConvertible {
    var line: Int
    var node: UInt16
    /// `term`, `commit`, `log` and so on.
    var what: String
    var recorded: String
    var ours: String

    var description: String { "\(line): \(node) \(what): \(recorded), Divan \(ours)" }
}

/// Runs a public interaction script with Divan's members and compares them with its record.
///
/// Compared are, where the record shows them: term, vote, commit, role, leader and applied
/// configuration of each member, log contents, progress, and whether campaigns and proposals were
/// accepted. Messages are not compared: Divan's differ, and may be sent at other times.
struct Script {
    enum Trouble: Error, Equatable {
        case unknownCommand(String)
        case neverIdle(line: Int)
    }

    var group = ScriptGroup()
    var differences: [Difference] = []
    /// The number of comparisons.
    ///
    /// Tests check it, since a run without comparisons finds no differences.
    var comparisons = 0
    var record = ScriptRecord()
    var line = 0
    /// The differences found by the latest comparison of each value, by member and value.
    var standing: [String: Difference] = [:]

    mutating func run(_ directives: [Directive]) throws(Trouble) {
        for directive in directives {
            line = directive.line
            try execute(directive)
            record.read(directive)
            compareFacts()
            compareAnswer(directive)
        }
    }

    // MARK: Commands

    private mutating func execute(_ directive: Directive) throws(Trouble) {
        let named = Notation.nodes(directive.words)
        switch directive.command {
        case "log-level", "raft-state", "raft-log", "status": break
        case "add-nodes": addNodes(directive)
        case "campaign": for node in named { group.step(node, .campaign) }
        case "propose": propose(directive, at: named[0])
        case "propose-conf-change": proposeChange(directive, at: named[0])
        case "process-ready": for node in named { group.processReady(node) }
        case "process-append-thread": for node in named { group.processAppend(node) }
        case "process-apply-thread": for node in named { group.processApply(node) }
        case "deliver-msgs": deliver(directive, to: named)
        case "stabilize":
            let chosen = named.isEmpty ? group.numbers : named
            guard group.stabilize(chosen) else { throw .neverIdle(line: line) }
        default: try executeRare(directive, named)
        }
    }

    private mutating func executeRare(
        _ directive: Directive,
        _ named: [NodeNumber]
    ) throws(Trouble) {
        switch directive.command {
        case "tick-heartbeat": for node in named { tick(node, 1) }
        case "tick-election": for node in named { tick(node, 3) }
        case "set-randomized-election-timeout":
            let dice = UInt32((directive.number("timeout") ?? 3) - 3)
            group.nodes[named[0]]?.dice = dice
        case "report-unreachable": group.step(named[0], .unreachable(named[1]))
        case "transfer-leadership":
            let leader = Notation.nodes(directive.options["from"])
            let target = Notation.nodes(directive.options["to"])
            group.step(leader[0], .transfer(to: target[0]))
        case "compact": compact(named[0], to: UInt64(named[1].value))
        case "send-snapshot":
            let sender = group[named[0]]
            let message = Message(
                from: named[0],
                to: named[1],
                term: sender.raft.term,
                body: .snapshot(sender.applied)
            )
            group.network.append(.message(message))
        default: throw .unknownCommand(directive.command)
        }
    }

    private mutating func addNodes(_ directive: Directive) {
        group.modes.isPreVoting = group.modes.isPreVoting || directive.isOn("prevote")
        group.modes.isCheckingQuorum =
            group.modes.isCheckingQuorum || directive.isOn("checkquorum")
        group.modes.isAsynchronous =
            group.modes.isAsynchronous || directive.isOn("async-storage-writes")
        let configuration = VoterConfiguration(
            voters: Notation.nodes(directive.options["voters"]),
            learners: Notation.nodes(directive.options["learners"])
        )
        let index = directive.number("index") ?? 0
        let position = LogPosition(term: index == 0 ? 0 : 1, index: index)
        for _ in 0..<(UInt16(directive.words[0]) ?? 0) {
            let number = NodeNumber(UInt16(group.nodes.count + 1))
            var settings = RaftSettings(node: number)
            settings.electionTicks = 3
            settings.heartbeatTicks = 1
            settings.appendBytesMax = .max
            settings.appendsInFlightMax = Int(directive.number("inflight") ?? 1_000)
            settings.entriesKept = 0
            let snapshot = SnapshotDescription(position: position, configuration: configuration)
            let disk = RestoredState(snapshot: snapshot)
            group.nodes[number] = ScriptNode(settings, disk)
            record.added(number, configuration)
        }
    }

    private mutating func tick(_ node: NodeNumber, _ count: Int) {
        let dice = group[node].dice
        for _ in 0..<count { group.step(node, .tick(dice: dice)) }
    }

    private mutating func deliver(_ directive: Directive, to named: [NodeNumber]) {
        let onlyAppends = directive.options["type"] == ["MsgApp"]
        for node in named { group.deliver(to: node, onlyAppends: onlyAppends) }
        for node in Notation.nodes(directive.options["drop"]) { group.drop(to: node) }
    }

    private mutating func compact(_ node: NodeNumber, to index: LogIndex) {
        guard let term = group[node].raft.log.term(at: index) else { return }
        let description = SnapshotDescription(
            position: LogPosition(term: term, index: index),
            configuration: group[node].applied.configuration
        )
        group.step(node, .snapshotTaken(description))
        group.nodes[node]?.disk.snapshot = description
        let base = group[node].raft.log.base
        group.nodes[node]?.disk.base = base
    }

    /// Divan's followers do not forward proposals, so the script proposes at the leader.
    private func proposer(for node: NodeNumber) -> NodeNumber { group[node].raft.leader ?? node }

    private mutating func propose(_ directive: Directive, at node: NodeNumber) {
        let text = directive.words.dropFirst().joined(separator: " ")
        let answer = group.step(proposer(for: node), .propose([Array(text.utf8)]))
        let isAccepted = answer?.isAccepted == true
        compare("proposal", node, directive.answer == ["ok"] ? "accepted" : "refused") {
            isAccepted ? "accepted" : "refused"
        }
    }

    private mutating func proposeChange(_ directive: Directive, at node: NodeNumber) {
        var change = ConfigurationChange(Notation.steps(directive.input) ?? [])
        switch directive.options["transition"] {
        case ["explicit"]: change.transition = .jointUntilLeft
        case ["implicit"]: change.transition = .jointLeftByItself
        default: break
        }
        let leader = proposer(for: node)
        let answer = group.step(leader, .change(change))
        var isAccepted = answer?.isAccepted == true
        if answer == .refused(.changeInProgress), directive.answer == ["ok"] {
            group.nodes[leader]?.changes.append(change)
            isAccepted = true
        }
        compare("change", node, directive.answer == ["ok"] ? "accepted" : "refused") {
            isAccepted ? "accepted" : "refused"
        }
        // In the record an empty entry replaces a refused change.
        if !isAccepted, group[leader].raft.isLeader { group.step(leader, .propose([[]])) }
    }
}

extension ProposalAnswer {
    fileprivate var isAccepted: Bool {
        if case .accepted = self { return true }
        return false
    }
}
