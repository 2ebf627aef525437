package import Bytes
package import Vocabulary

/// Which nodes are voters and which are learners.
///
/// During a change both the old and the new voters count ("joint", thesis 4.3): each decision needs
/// a majority in each half, so two disjoint majorities can never decide.
///
/// - The lists are sorted and without repetition, so that equal configurations are equal bytes.
/// - No node is both voter and learner of the new half.
package struct VoterConfiguration: Hashable, Sendable {
    package internal(set) var voters: [NodeNumber]
    /// The voters of the old half; empty unless the configuration is joint.
    package internal(set) var outgoing: [NodeNumber] = []
    package internal(set) var learners: [NodeNumber] = []
    /// Voters of the old half that will be learners when the joint configuration is left.
    package internal(set) var learnersNext: [NodeNumber] = []
    /// The leader leaves the joint configuration as soon as it is committed.
    package internal(set) var leavesByItself = false

    /// A configuration that is not joint.
    ///
    /// The lists may be in any order and repeat nodes.
    package init(voters: [NodeNumber], learners: [NodeNumber] = []) {
        self.voters = voters.sortedWithoutRepetition
        self.learners = learners.sortedWithoutRepetition
    }

    package var isJoint: Bool { !outgoing.isEmpty }

    package func isVoter(_ node: NodeNumber) -> Bool {
        voters.contains(node) || outgoing.contains(node)
    }

    package func contains(_ node: NodeNumber) -> Bool {
        isVoter(node) || learners.contains(node) || learnersNext.contains(node)
    }

    /// All nodes that receive entries, in order.
    package var members: [NodeNumber] {
        (voters + outgoing + learners + learnersNext).sortedWithoutRepetition
    }

    /// All nodes whose votes count in an election, in order.
    package var electorate: [NodeNumber] { (voters + outgoing).sortedWithoutRepetition }
}

extension VoterConfiguration: CodedFields {
    package init() { self.init(voters: []) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.nodes(&voters, "voters")
        try coder.nodes(&outgoing, "outgoing voters")
        try coder.nodes(&learners, "learners")
        try coder.nodes(&learnersNext, "next learners")
        try coder.field(&leavesByItself, "leaving by itself")
    }
}

extension Coder {
    /// A list that is sorted and without repetition.
    fileprivate mutating func nodes(
        _ nodes: inout [NodeNumber],
        _ name: StaticString
    ) throws(CodingFailure) {
        try list(&nodes, name, blank: NodeNumber(0)) { coder, node throws(CodingFailure) in
            try coder.fixed(&node, name)
        }
        try require(nodes == nodes.sortedWithoutRepetition, name)
    }
}

extension [NodeNumber] {
    var sortedWithoutRepetition: [NodeNumber] {
        var result: [NodeNumber] = []
        for node in sorted() where result.last != node { result.append(node) }
        return result
    }

    mutating func add(_ node: NodeNumber) {
        if !contains(node) {
            append(node)
            sort()
        }
    }

    mutating func drop(_ node: NodeNumber) {
        removeAll { $0 == node }
    }
}
