package import Vocabulary

/// The leader's information for a decision, beside its failure table.
package struct FailoverSituation: Hashable, Sendable {
    /// An active node, with its server group and vote.
    package struct Member: Hashable, Sendable {
        package var node: NodeNumber
        package var group: String
        package var isVoter: Bool

        package init(_ node: NodeNumber, group: String = "", isVoter: Bool = true) {
            self.node = node
            self.group = group
            self.isVoter = isVoter
        }
    }

    /// Active nodes only: without joining, waiting and failed-over ones.
    package var members: [Member]
    /// Server groups with failed-over nodes.
    package var groupsHit: Set<String> = []
    /// When this node became the leader.
    package var leaderSinceNanoseconds: UInt64
    /// Automatic failovers since the count was reset.
    package var count = 0
    /// No failover starts before this time, after a failed attempt.
    package var coolingUntilNanoseconds: UInt64 = 0
    package var isMembershipChanging = false
    package var buckets: [BucketAtStake] = []

    package init(members: [Member], leaderSinceNanoseconds: UInt64) {
        self.members = members
        self.leaderSinceNanoseconds = leaderSinceNanoseconds
    }

    var nodes: [NodeNumber] { members.map(\.node).sorted() }
    var nodesNeeded: Int { members.count / 2 + 1 }
}
