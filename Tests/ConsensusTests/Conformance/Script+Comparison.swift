import Consensus
import Vocabulary

/// Comparison of the record with the members' state.
extension Script {
    mutating func compare(
        _ what: String,
        _ node: NodeNumber,
        _ recorded: String?,
        _ ours: () -> String
    ) {
        guard let recorded else { return }
        comparisons += 1
        let ours = ours()
        let key = "\(node) \(what)"
        guard recorded != ours else {
            // This also supersedes a difference found by an earlier `raft-state`.
            standing[key] = nil
            standing["\(key) now"] = nil
            return
        }
        let difference = Difference(
            line: line,
            node: node.value,
            what: what,
            recorded: recorded,
            ours: ours
        )
        let before = standing[key]
        standing[key] = difference
        if before?.recorded != recorded || before?.ours != ours { differences.append(difference) }
    }

    mutating func compareFacts() {
        for number in group.numbers {
            let ours = group[number].published
            let facts = record.facts[number] ?? Facts()
            compare("term", number, facts.term) { ours.term }
            compare("vote", number, facts.vote) { ours.vote }
            compare("commit", number, facts.commit) { ours.commit }
            compare("role", number, facts.role) { ours.role }
            compare("leader", number, facts.leader) { ours.leader }
            let applied = Notation.text(group[number].applied.configuration)
            compare("configuration", number, facts.configuration) { applied }
        }
    }

    private mutating func compare<Value>(
        _ what: String,
        _ node: NodeNumber,
        _ recorded: Value?,
        _ ours: () -> Value?
    ) {
        compare(what, node, recorded.map { "\($0)" }) { ours().map { "\($0)" } ?? "nothing" }
    }

    mutating func compareAnswer(_ directive: Directive) {
        switch directive.command {
        case "raft-state": compareStates(directive)
        case "status": compareProgress(directive)
        case "raft-log": compareLog(directive)
        case "compact" where directive.answer != ["ok"]: compareLog(directive)
        case "campaign" where directive.answer != ["ok"]: compareCampaign(directive)
        default: break
        }
    }

    /// Compares lines such as `1: StateLeader (Voter) Term:1 Lead:1` with the current state, even
    /// if `process-ready` has not published it yet.
    private mutating func compareStates(_ directive: Directive) {
        for line in directive.answer {
            let words = line.split(separator: " ")
            guard let node = Notation.nodes([String(words[0].dropLast())]).first else { continue }
            let ours = group[node].facts
            let isVoter = group[node].applied.configuration.isVoter(node)
            let values = ScriptRecord.values(words)
            compare("role now", node, "\(words[1])") { ours.role ?? "" }
            compare("voter", node, "\(words[2])") { isVoter ? "(Voter)" : "(Non-Voter)" }
            compare("term now", node, values["Term"].flatMap { UInt64($0) }) { ours.term }
            compare("leader now", node, values["Lead"].flatMap { UInt16($0) }) { ours.leader }
        }
    }

    private mutating func compareProgress(_ directive: Directive) {
        guard let leader = Notation.nodes(directive.words).first else { return }
        let node = group[leader]
        for line in directive.answer {
            var words = line.split(separator: " ").map { String($0) }
            guard let member = Notation.nodes([String(words.removeFirst().dropLast())]).first
            else { continue }
            let progress = node.raft.progress.first { $0.node == member }?.progress
            var recorded = Set(words)
            if recorded.contains("StateSnapshot") {
                recorded = recorded.filter { !$0.hasPrefix("next=") }
            }
            let ours = progress.map { node.progressWords(of: member, $0) } ?? []
            compare("progress", member, recorded.sorted().joined(separator: " ")) {
                ours.sorted().joined(separator: " ")
            }
        }
    }

    private mutating func compareLog(_ directive: Directive) {
        guard let node = Notation.nodes(directive.words).first else { return }
        let recorded = directive.answer.filter { $0.contains("/") }.map { line in
            // The entry of a change holds the change in etcd, the resulting configuration in Divan:
            // compare only that both have one.
            let words = line.split(separator: " ")
            return words[1].hasPrefix("EntryConfChange") ? "\(words[0]) EntryConfChange" : line
        }
        let ours = group[node].logLines
        compare("log", node, recorded.joined(separator: "; ")) { ours.joined(separator: "; ") }
    }

    /// Compares whether the member campaigned, and in which term.
    private mutating func compareCampaign(_ directive: Directive) {
        guard let node = Notation.nodes(directive.words).first else { return }
        let lines = directive.answer.joined(separator: "\n")
        let kinds = ["StatePreCandidate": " pre-candidate ", "StateCandidate": " candidate "]
        let recorded = kinds.first { lines.contains($0.value) }?.key ?? "does not campaign"
        let ours = group[node].facts
        let role = ours.role ?? ""
        // A single member may be elected at once.
        let isElected = role == "StateLeader" && recorded == "StateCandidate"
        compare("campaign", node, recorded) {
            isElected ? recorded : kinds[role] == nil ? "does not campaign" : role
        }
        let term = lines.firstMatch(of: /candidate at term (\d+)/).flatMap { UInt64($0.1) }
        compare("term now", node, term) { ours.term }
    }
}
