package import Vocabulary

/// An administrator's settings for automatic failover.
package struct AutoFailoverRules: Hashable, Sendable {
    package var isEnabled = true
    package var timeoutSeconds = Limits.autoFailoverSecondsDefault
    /// Automatic failovers allowed until the count is reset.
    package var maxCount = 1
    /// Whether a failover may interrupt a running rebalance.
    package var stopsRebalance = true
    /// Whether a failover may lose the data of ephemeral buckets without replicas.
    package var losesEphemeral = false
    /// Seconds of disk failures after which a node is failed over; nil disables that.
    package var diskSeconds: Int?

    package init() {}

    var timeoutNanoseconds: UInt64 { UInt64(timeoutSeconds) * 1_000_000_000 }
}

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

    /// Whether a rebalance runs, and whether it can be interrupted.
    package enum Rebalance: Hashable, Sendable {
        case none
        case running
        /// Running, in a step that cannot be interrupted.
        case unstoppable
    }

    /// Commits of a node in the observed interval.
    package struct DiskHealth: Hashable, Sendable {
        /// Commits in the observed interval, failed ones included.
        package var commits: UInt64
        package var failures: UInt64
        /// When the present share of failures was first observed.
        package var sinceNanoseconds: UInt64

        package init(commits: UInt64, failures: UInt64, sinceNanoseconds: UInt64) {
            self.commits = commits
            self.failures = failures
            self.sinceNanoseconds = sinceNanoseconds
        }

        package var isBroken: Bool {
            commits > 0 && failures * 100 >= commits * UInt64(Limits.diskFailuresPercent)
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
    package var rebalance = Rebalance.none
    package var buckets: [BucketAtStake] = []
    package var disks: [NodeNumber: DiskHealth] = [:]

    package init(members: [Member], leaderSinceNanoseconds: UInt64) {
        self.members = members
        self.leaderSinceNanoseconds = leaderSinceNanoseconds
    }

    var nodes: [NodeNumber] { members.map(\.node).sorted() }
    var nodesNeeded: Int { members.count / 2 + 1 }
}
