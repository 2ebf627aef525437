package import Consensus
package import Vocabulary

/// A member's state at the end of its last turn.
package struct RaftStatus: Sendable {
    package var role = RaftRole.follower
    package var leader: NodeNumber?
    package var term: Term = 0
    package var commit: LogIndex = 0
    /// The last index that the replicated state applied.
    package var applied: LogIndex = 0
    /// The last entry of the log, committed or not.
    package var last: LogIndex = 0
    /// When the current disk write began, in monotonic nanoseconds; nil if none is under way.
    package var diskBusySince: UInt64?
    package var configuration = VoterConfiguration(voters: [])
    /// Whether this node leads and has applied everything committed before its term.
    package var isReadyToLead = false
    /// The progress of each member; empty unless this node leads.
    package var progress: [(node: NodeNumber, progress: Progress)] = []
    /// Why this node takes no part in decisions, for an operator; nil if it does.
    package var failure: String?

    /// The member with the fewest log entries on disk while entries are uncommitted; the first of
    /// equals.
    ///
    /// Nil if everything is committed, or another node leads.
    package var laggard: (node: NodeNumber, entries: UInt64)? {
        guard last > commit else { return nil }
        let behind = configuration.electorate.sorted()
            .map { (node: $0, entries: missing(on: $0)) }
        return behind.max { $0.entries < $1.entries }.flatMap { $0.entries > 0 ? $0 : nil }
    }

    /// The names of all roles, for statistics.
    package static let roleNames = [RaftRole.follower, .preCandidate, .candidate, .leader]
        .map { "\($0)" }

    package var roleName: String { "\(role)" }

    /// How many entries a member has not acknowledged; 0 unless this node leads.
    package func missing(on node: NodeNumber) -> UInt64 {
        guard let known = progress.first(where: { $0.node == node })?.progress else { return 0 }
        return last > known.matched ? last - known.matched : 0
    }

    /// Whether `onChange` must be called.
    func differs(from other: RaftStatus) -> Bool {
        role != other.role || leader != other.leader || term != other.term
            || configuration != other.configuration || isReadyToLead != other.isReadyToLead
            || failure != other.failure
    }
}
