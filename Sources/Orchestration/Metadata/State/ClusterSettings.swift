package import Bytes

/// When a node that does not answer is failed over automatically.
package struct AutoFailoverSettings: Hashable, Sendable, CodedFields {
    package static let timeoutSecondsRange = 1...3_600

    package var isEnabled = true
    package var timeoutSeconds: UInt16 = 5
    /// Automatic failovers allowed until an operator resets the count or a rebalance completes.
    package var countMax: UInt16 = 1
    package var isForDiskIssues = false
    package var diskIssueSeconds: UInt16 = 120

    package init() {}

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&isEnabled, "automatic failover")
        try coder.field(&timeoutSeconds, "timeout")
        try coder.field(&countMax, "allowed failovers")
        try coder.field(&isForDiskIssues, "failover for disk issues")
        try coder.field(&diskIssueSeconds, "time of disk issues")
    }
}

/// Cluster-wide settings that an administrator may change.
package struct ClusterSettings: Hashable, Sendable, CodedFields {
    package static let movesPerNodeRange = 1...64

    /// Compaction starts when this percentage of the stored data is superseded.
    package var fragmentationPercent: UInt16 = 30
    /// Tombstones are purged after this many hours.
    package var purgeIntervalHours: UInt32 = 72
    /// Limits the memory per bucket that no bucket quota accounts for.
    package var maxBucketCount: UInt32 = 1_000
    package var autoFailover = AutoFailoverSettings()
    /// Copies that a rebalance builds concurrently into one node, and out of one node.
    package var movesPerNode: UInt16 = 4
    package var retry = RetrySettings()
    package var passwords = PasswordSettings()
    package var security = SecuritySettings()

    package init() {}

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&fragmentationPercent, "fragmentation")
        try coder.field(&purgeIntervalHours, "purge interval")
        try coder.field(&maxBucketCount, "allowed buckets")
        try coder.field(&autoFailover, "automatic failover")
        try coder.field(&movesPerNode, "moves per node")
        try coder.field(&retry, "retry")
        try coder.field(&passwords, "passwords")
        try coder.field(&security, "security")
    }
}
