import Consensus
import Vocabulary

/// How the public tables and scripts write configurations and changes.
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

    /// `v1 l2 r3`; nil where one of them is none of ours.
    ///
    /// `u4` (news about a node for those that keep some beside the log) changes no configuration;
    /// node zero, which the tables let pass as nobody, is no `NodeNumber` that anybody carries.
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

    /// Nothing changes by it: in the tables a change may be empty, with us that is the wish to
    /// leave a joint configuration.
    static let nothing = ConfigurationChange.Step.remove(NodeNumber(.max))
}
