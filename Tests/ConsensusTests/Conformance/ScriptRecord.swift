import Consensus
import Vocabulary

/// The state of the members according to a script's record so far.
///
/// Only values that are the same in every implementation of Raft are read: hard states, roles and
/// applied configurations. While a script's log is turned off, these are unknown.
struct ScriptRecord {
    private(set) var facts: [NodeNumber: Facts] = [:]
    private var isSilent = false
    private var isChanging = false

    mutating func forgetAll() {
        for node in facts.keys {
            let configuration = isChanging ? nil : facts[node]?.configuration
            facts[node] = Facts(configuration: configuration)
        }
    }

    mutating func added(_ node: NodeNumber, _ configuration: VoterConfiguration) {
        facts[node] = Facts(configuration: Notation.text(configuration))
    }

    mutating func read(_ directive: Directive) {
        if directive.command == "log-level" {
            isSilent = directive.words == ["none"]
            return
        }
        if directive.command == "propose-conf-change" { isChanging = true }
        let statefulCommands = ["stabilize", "process-ready", "deliver-msgs", "add-nodes"]
        if isSilent || directive.options["log-level"] == ["none"] {
            if statefulCommands.contains(directive.command) { forgetAll() }
            return
        }
        // Without a heading, the lines are about the member named in the command.
        var node = Notation.nodes(directive.words).first
        for line in directive.answer {
            let words = line.split(separator: " ")
            if words.first == ">" {
                node = Notation.nodes([String(words[1])]).first
            } else if words.first == "INFO" {
                readNote(words)
            } else if let node {
                readReady(words, node)
            }
        }
    }

    private mutating func readReady(_ words: [Substring], _ node: NodeNumber) {
        let values = Self.values(words)
        switch words.first {
        case "HardState":
            facts[node]?.term = values["Term"].flatMap { UInt64($0) }
            facts[node]?.vote = values["Vote"].map { UInt16($0) } ?? 0
            facts[node]?.commit = values["Commit"].flatMap { UInt64($0) }
        case let word? where word.hasPrefix("Lead:"):
            facts[node]?.leader = values["Lead"].flatMap { UInt16($0) }
            facts[node]?.role = values["State"].map { String($0) }
        default: break
        }
    }

    private mutating func readNote(_ words: [Substring]) {
        guard words.count > 4 else { return }
        if words[1] == "newRaft", let node = Notation.nodes([String(words[2])]).first {
            let line = words.joined()
            facts[node]?.term = line.firstMatch(of: /term:(\d+),commit/).flatMap { UInt64($0.1) }
            facts[node]?.commit = line.firstMatch(of: /commit:(\d+)/).flatMap { UInt64($0.1) }
            facts[node]?.role = "StateFollower"
            facts[node]?.leader = 0
            facts[node]?.vote = 0
        } else if words[2...4].joined(separator: " ") == "switched to configuration",
            let node = Notation.nodes([String(words[1])]).first
        {
            facts[node]?.configuration = words[5...].joined(separator: " ")
        }
    }

    /// Reads words such as `Term:1 Vote:2` into values by name.
    static func values(_ words: [Substring]) -> [Substring: Substring] {
        var values: [Substring: Substring] = [:]
        for word in words {
            let parts = word.split(separator: ":", maxSplits: 1)
            if parts.count == 2 { values[parts[0]] = parts[1] }
        }
        return values
    }
}
