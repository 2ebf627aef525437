package import Vocabulary

/// How a vote stands.
package enum VoteOutcome: Hashable, Sendable {
    case won
    case lost
    case pending
}

/// Majorities, simple and joint.
extension VoterConfiguration {
    /// The highest index that a quorum has reached, by how far each voter is.
    package func committed(_ reached: (NodeNumber) -> UInt64) -> UInt64 {
        let new = Self.reachedByMajority(of: voters, reached)
        return isJoint ? min(new, Self.reachedByMajority(of: outgoing, reached)) : new
    }

    /// How the vote stands, by what each voter said; nil where it has not answered.
    package func outcome(_ vote: (NodeNumber) -> Bool?) -> VoteOutcome {
        let new = Self.outcome(of: voters, vote)
        guard isJoint else { return new }
        switch (new, Self.outcome(of: outgoing, vote)) {
        case (.won, .won): return .won
        case (.lost, _), (_, .lost): return .lost
        default: return .pending
        }
    }

    /// A half without voters decides nothing by itself: the other one does.
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
