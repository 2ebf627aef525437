/// When a node that does not answer is failed over without anybody asking.
package struct AutoFailoverSettings: Hashable, Sendable {
    package static let timeoutSecondsRange = 1...3_600

    package var isEnabled = true
    package var timeoutSeconds: UInt16 = 5
    /// Failovers in a row, until somebody looks or a rebalance is complete.
    package var countMax: UInt16 = 1
    package var isForDiskIssues = false
    package var diskIssueSeconds: UInt16 = 120

    package init() {}
}

/// What an administrator may set for the whole cluster.
package struct ClusterSettings: Hashable, Sendable {
    package static let movesPerNodeRange = 1...64

    /// Percent of superseded data at which compaction begins.
    package var fragmentationPercent: UInt16 = 30
    /// Hours that tombstones are kept.
    package var purgeIntervalHours: UInt32 = 72
    /// More buckets cost memory that nobody sees on the bucket's bill.
    package var maxBucketCount: UInt32 = 1_000
    package var autoFailover = AutoFailoverSettings()
    /// Copies that a rebalance builds at a time, into a node and out of it.
    package var movesPerNode: UInt16 = 4
    package var retry = RetrySettings()

    package init() {}
}
