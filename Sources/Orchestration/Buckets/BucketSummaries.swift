/// Memory and disk use with a new or changed bucket, which a form shows beside its fields.
package struct BucketSummaries: Hashable, Sendable {
    /// Measured use, in bytes: of this bucket, of other buckets, and of the disk.
    package struct Usage: Hashable, Sendable {
        package var thisMemory: UInt64 = 0
        package var thisDisk: UInt64 = 0
        package var otherDisk: UInt64 = 0
        package var diskTotal: UInt64 = 0
        package var diskFree: UInt64 = 0

        package init() {}
    }

    private let state: ClusterState
    private let name: String?
    private let quota: UInt64
    package let usage: Usage

    /// - Parameters:
    ///   - state: The present state of the cluster.
    ///   - name: The bucket to be changed; nil for a new one.
    ///   - quota: The requested quota, in bytes on each node.
    ///   - usage: Measured use.
    package init(state: ClusterState, name: String?, quota: UInt64, usage: Usage) {
        self.state = state
        self.name = name
        self.quota = quota
        self.usage = usage
    }

    /// The quota in MB on each node.
    package var perNodeMegabytes: UInt64 { quota >> 20 }
    /// The number of nodes, at least one.
    package var nodeCount: UInt64 { UInt64(max(state.activeNodes.count, 1)) }
    /// Bytes of memory on all nodes, as those below.
    package var memoryTotal: UInt64 { onAllNodes(state.memoryQuota) }
    package var memoryOfOthers: UInt64 { onAllNodes(state.bucketQuotas(except: name)) }
    package var memoryAllocated: UInt64 { onAllNodes(quota) }
    package var memoryFree: Int64 {
        Self.difference(memoryTotal, memoryOfOthers, memoryAllocated)
    }
    /// Bytes on disk that belong to no bucket.
    package var otherData: UInt64 {
        let used = usage.diskTotal - min(usage.diskTotal, usage.diskFree)
        return used - min(used, usage.thisDisk + usage.otherDisk)
    }

    private func onAllNodes(_ quota: UInt64) -> UInt64 {
        ClusterState.bytes(ofQuota: quota, onNodes: nodeCount)
    }

    /// `total` without `others` and `allocated`; negative if these are more, and bounded by what
    /// fits into 64 bits.
    private static func difference(
        _ total: UInt64,
        _ others: UInt64,
        _ allocated: UInt64
    ) -> Int64 {
        let (sum, isTooLarge) = others.addingReportingOverflow(allocated)
        let used = isTooLarge ? UInt64.max : sum
        return total >= used ? Int64(clamping: total - used) : -Int64(clamping: used - total)
    }
}
