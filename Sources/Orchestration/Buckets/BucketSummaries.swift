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
    private let usage: Usage

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

    package var json: JSONText {
        let nodes = UInt64(max(state.activeNodes.count, 1))
        let total = ClusterState.bytes(ofQuota: state.memoryQuota, onNodes: nodes)
        let others = ClusterState.bytes(
            ofQuota: state.bucketQuotas(except: name),
            onNodes: nodes
        )
        let allocated = ClusterState.bytes(ofQuota: quota, onNodes: nodes)
        let otherData = usage.diskTotal - min(usage.diskTotal, usage.diskFree)
        let ours = usage.thisDisk + usage.otherDisk
        return [
            "ramSummary": [
                "total": .number(total),
                "otherBuckets": .number(others),
                "nodesCount": .number(nodes),
                "perNodeMegs": .number(quota >> 20),
                "thisAlloc": .number(allocated),
                "thisUsed": .number(usage.thisMemory),
                "free": .number(Self.difference(total, others, allocated)),
            ],
            "hddSummary": [
                "total": .number(usage.diskTotal),
                "otherData": .number(otherData - min(otherData, ours)),
                "otherBuckets": .number(usage.otherDisk),
                "thisUsed": .number(usage.thisDisk),
                "free": .number(usage.diskFree),
            ],
        ]
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
