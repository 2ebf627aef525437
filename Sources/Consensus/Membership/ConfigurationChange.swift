package import Vocabulary

/// A wish to change who votes.
package struct ConfigurationChange: Hashable, Sendable {
    package enum Step: Hashable, Sendable {
        case addVoter(NodeNumber)
        case addLearner(NodeNumber)
        case remove(NodeNumber)
    }

    package enum Transition: Hashable, Sendable {
        /// At once where one voter at most comes or goes, else as `.jointLeftByItself`.
        case automatic
        case jointLeftByItself
        /// The joint configuration stays until `leave` is proposed.
        case jointUntilLeft
    }

    package var steps: [Step]
    package var transition: Transition

    package init(_ steps: [Step], transition: Transition = .automatic) {
        self.steps = steps
        self.transition = transition
    }

    /// Ends a joint configuration.
    package static var leave: ConfigurationChange { ConfigurationChange([]) }
}

/// Why a change of the configuration cannot be.
package enum ConfigurationRefusal: Error, Hashable, Sendable {
    case noVoterLeft
    case alreadyJoint
    case notJoint
}

extension VoterConfiguration {
    /// The configuration that the change leads to, in one step.
    package func applying(
        _ change: ConfigurationChange
    ) throws(ConfigurationRefusal) -> VoterConfiguration {
        if change.steps.isEmpty {
            guard isJoint else { throw .notJoint }
            return left
        }
        guard !isJoint else { throw .alreadyJoint }
        var simple = self
        for step in change.steps { simple.take(step) }
        guard !simple.voters.isEmpty else { throw .noVoterLeft }
        let added = simple.voters.filter { !voters.contains($0) }.count
        let removed = voters.filter { !simple.voters.contains($0) }.count
        if change.transition == .automatic, added + removed <= 1 { return simple }

        // Two halves that decide: a group of nobody gets its first voters at once or not at all.
        guard !voters.isEmpty else { throw .noVoterLeft }
        var joint = self
        joint.outgoing = voters
        joint.leavesByItself = change.transition != .jointUntilLeft
        for step in change.steps { joint.take(step) }
        return joint
    }

    /// What a joint configuration becomes.
    package var left: VoterConfiguration {
        VoterConfiguration(voters: voters, learners: learners + learnersNext)
    }

    private mutating func take(_ step: ConfigurationChange.Step) {
        switch step {
        case .addVoter(let node):
            learners.drop(node)
            learnersNext.drop(node)
            voters.add(node)
        case .addLearner(let node):
            voters.drop(node)
            // Whoever still votes in the old half cannot be a learner yet.
            if outgoing.contains(node) {
                learnersNext.add(node)
            } else {
                learners.add(node)
            }
        case .remove(let node):
            voters.drop(node)
            learners.drop(node)
            learnersNext.drop(node)
        }
    }
}
