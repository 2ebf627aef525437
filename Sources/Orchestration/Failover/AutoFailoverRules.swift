package import Vocabulary

/// What an administrator chose about automatic failover.
package struct AutoFailoverRules: Hashable, Sendable {
    package var isEnabled = true
    package var timeoutSeconds = Limits.autoFailoverSecondsDefault
    /// So many nodes at most, until the count is reset.
    package var maxCount = 1
    /// A running rebalance may be interrupted.
    package var stopsRebalance = true
    /// Buckets in memory without replicas are given up.
    package var losesEphemeral = false
    /// Nodes whose disk fails are failed over too, when it failed for so long; nil where not.
    package var diskSeconds: Int?

    package init() {}

    var timeoutNanoseconds: UInt64 { UInt64(timeoutSeconds) * 1_000_000_000 }
}

/// What the leader knows beside its failure table.
package struct FailoverSituation: Hashable, Sendable {
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

    package enum Rebalance: Hashable, Sendable {
        case none
        case running
        /// At a place where it cannot be interrupted.
        case unstoppable
    }

    package struct DiskHealth: Hashable, Sendable {
        package var commits: UInt64
        package var failures: UInt64
        /// Since when so many fail.
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

    /// Active nodes; those that joined and wait, or were failed over, are none.
    package var members: [Member]
    /// Groups that have lost nodes to a failover before.
    package var groupsHit: Set<String> = []
    /// Since when this node leads.
    package var leaderSinceNanoseconds: UInt64
    /// Automatic failovers since the count was reset.
    package var count = 0
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
