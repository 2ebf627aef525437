import Consensus
import Vocabulary

/// The notation of configurations and changes in the public tables and scripts.
enum Notation {
    /// `voters=(2 3)&&(1) learners=(4) learners_next=(1) autoleave`.
    static func text(_ configuration: VoterConfiguration) -> String {
        var parts = ["voters=\(list(configuration.voters))"]
        if configuration.isJoint { parts[0] += "&&\(list(configuration.outgoing))" }
        if !configuration.learners.isEmpty {
            parts.append("learners=\(list(configuration.learners))")
        }
        if !configuration.learnersNext.isEmpty {
            parts.append("learners_next=\(list(configuration.learnersNext))")
        }
        if configuration.leavesByItself { parts.append("autoleave") }
        return parts.joined(separator: " ")
    }

    private static func list(_ nodes: [NodeNumber]) -> String {
        "(" + nodes.map { "\($0.value)" }.joined(separator: " ") + ")"
    }

    static func nodes(_ words: [String]?) -> [NodeNumber] {
        (words ?? []).compactMap { UInt16($0) }.map { NodeNumber($0) }
    }

    /// Reads `v1 l2 r3`; nil if a word is not understood.
    ///
    /// `u4` (an update of data about a node) changes no configuration and is skipped. So is node 0,
    /// which in the tables stands for no node and which no node in Divan has.
    static func steps(_ lines: [String]) -> [ConfigurationChange.Step]? {
        var steps: [ConfigurationChange.Step] = []
        for word in lines.flatMap({ $0.split(separator: " ") }) {
            guard let value = UInt16(word.dropFirst()) else { return nil }
            let node = NodeNumber(value)
            switch word.first {
            case _ where value == 0: continue
            case "v": steps.append(.addVoter(node))
            case "l": steps.append(.addLearner(node))
            case "r": steps.append(.remove(node))
            case "u": continue
            default: return nil
            }
        }
        return steps
    }

    /// A step without effect.
    ///
    /// It stands for the empty changes of the tables, because in Divan a change without steps
    /// leaves a joint configuration.
    static let nothing = ConfigurationChange.Step.remove(NodeNumber(.max))
}
