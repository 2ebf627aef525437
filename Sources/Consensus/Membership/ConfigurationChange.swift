package import Vocabulary

/// A requested change of the voter configuration.
package struct ConfigurationChange: Hashable, Sendable {
    package enum Step: Hashable, Sendable {
        case addVoter(NodeNumber)
        case addLearner(NodeNumber)
        case remove(NodeNumber)
    }

    package enum Transition: Hashable, Sendable {
        /// One step if at most one voter is added or removed, otherwise as `.jointLeftByItself`.
        case automatic
        /// The leader leaves the joint configuration as soon as it is committed.
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

/// Why a change of the configuration is not possible.
package enum ConfigurationRefusal: Error, Hashable, Sendable {
    case noVoterLeft
    case alreadyJoint
    case notJoint
}

extension VoterConfiguration {
    /// Returns the configuration that follows this one: the simple result, or a joint configuration
    /// on the way to it.
    ///
    /// A change without steps leaves a joint configuration.
    ///
    /// - Throws: `noVoterLeft` if the result, or the old half of a joint configuration, would have
    ///   no voters; `alreadyJoint` if this configuration is joint and the change has steps;
    ///   `notJoint` if it is not joint and the change has none.
    package func applying(
        _ change: ConfigurationChange
    ) throws(ConfigurationRefusal) -> VoterConfiguration {
        if change.steps.isEmpty {
            guard isJoint else { throw .notJoint }
            return afterLeaving
        }
        guard !isJoint else { throw .alreadyJoint }
        var simple = self
        for step in change.steps { simple.apply(step) }
        guard !simple.voters.isEmpty else { throw .noVoterLeft }
        let added = simple.voters.filter { !voters.contains($0) }.count
        let removed = voters.filter { !simple.voters.contains($0) }.count
        if change.transition == .automatic, added + removed <= 1 { return simple }

        // Both halves of a joint configuration need voters, so a group without voters cannot get
        // its first ones by a joint change.
        guard !voters.isEmpty else { throw .noVoterLeft }
        var joint = self
        joint.outgoing = voters
        joint.leavesByItself = change.transition != .jointUntilLeft
        for step in change.steps { joint.apply(step) }
        return joint
    }

    /// The configuration that remains after a joint configuration is left.
    package var afterLeaving: VoterConfiguration {
        VoterConfiguration(voters: voters, learners: learners + learnersNext)
    }

    private mutating func apply(_ step: ConfigurationChange.Step) {
        switch step {
        case .addVoter(let node):
            learners.drop(node)
            learnersNext.drop(node)
            voters.add(node)
        case .addLearner(let node):
            voters.drop(node)
            // A voter of the old half becomes a learner only when the joint configuration is left.
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
