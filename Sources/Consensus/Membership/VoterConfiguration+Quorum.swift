package import Vocabulary

/// The state of a vote.
package enum VoteOutcome: Hashable, Sendable {
    case won
    case lost
    case pending
}

/// Majorities, simple and joint.
extension VoterConfiguration {
    /// The highest index that a quorum has reached, where `reached` returns the index of each
    /// voter.
    ///
    /// `UInt64.max` if there are no voters.
    package func committed(_ reached: (NodeNumber) -> UInt64) -> UInt64 {
        let new = Self.reachedByMajority(of: voters, reached)
        return isJoint ? min(new, Self.reachedByMajority(of: outgoing, reached)) : new
    }

    /// The state of a vote, where `vote` returns the answer of each voter, nil if there is none
    /// yet.
    ///
    /// Won if there are no voters.
    package func outcome(_ vote: (NodeNumber) -> Bool?) -> VoteOutcome {
        let new = Self.outcome(of: voters, vote)
        guard isJoint else { return new }
        switch (new, Self.outcome(of: outgoing, vote)) {
        case (.won, .won): return .won
        case (.lost, _), (_, .lost): return .lost
        default: return .pending
        }
    }

    /// A half without voters does not limit the result, so that the other half decides.
    private static func reachedByMajority(
        of half: [NodeNumber],
        _ reached: (NodeNumber) -> UInt64
    ) -> UInt64 {
        if half.isEmpty { return .max }
        let sorted = half.map(reached).sorted(by: >)
        return sorted[half.count / 2]
    }

    private static func outcome(
        of half: [NodeNumber],
        _ vote: (NodeNumber) -> Bool?
    ) -> VoteOutcome {
        if half.isEmpty { return .won }
        let majority = half.count / 2 + 1
        var granted = 0
        var missing = 0
        for node in half {
            switch vote(node) {
            case true?: granted += 1
            case nil: missing += 1
            case false?: break
            }
        }
        if granted >= majority { return .won }
        return granted + missing >= majority ? .pending : .lost
    }
}
