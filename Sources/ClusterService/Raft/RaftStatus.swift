package import Consensus
package import Vocabulary

/// What a member looks like from outside, as of the end of its last turn.
package struct RaftStatus: Sendable {
    package var role = Role.follower
    package var leader: NodeNumber?
    package var term: Term = 0
    package var commit: LogIndex = 0
    /// What the replicated state here has taken.
    package var applied: LogIndex = 0
    /// The last entry of the log here, decided or not.
    package var last: LogIndex = 0
    /// When the write began that the disk is busy with, in monotonic nanoseconds.
    package var diskBusySince: UInt64?
    package var configuration = VoterConfiguration(voters: [])
    /// It leads, and has applied everything that was committed before it did.
    package var isReadyToLead = false
    /// On the leader, what it believes of each member.
    package var progress: [(node: NodeNumber, progress: Progress)] = []
    /// Why this node takes no part now, for an operator; nil where it does.
    package var failure: String?

    /// Whose disk has least of the log, where something in it is not decided; of equals the first.
    ///
    /// Nil where everything is decided, or another node leads.
    package var laggard: (node: NodeNumber, entries: UInt64)? {
        guard last > commit else { return nil }
        let behind = configuration.electorate.sorted()
            .map { (node: $0, entries: missing(on: $0)) }
        return behind.max { $0.entries < $1.entries }.flatMap { $0.entries > 0 ? $0 : nil }
    }

    /// How many entries a member has not said to have on its disk, where this node leads.
    package func missing(on node: NodeNumber) -> UInt64 {
        guard let known = progress.first(where: { $0.node == node })?.progress else { return 0 }
        return last > known.matched ? last - known.matched : 0
    }

    /// Whether somebody who waits for a change of roles has to look again.
    func differs(from other: RaftStatus) -> Bool {
        role != other.role || leader != other.leader || term != other.term
            || configuration != other.configuration || isReadyToLead != other.isReadyToLead
            || failure != other.failure
    }
}
