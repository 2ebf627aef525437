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
        let total = state.memoryQuota * nodes
        let others = state.bucketQuotas(except: name) * nodes
        let allocated = quota * nodes
        let free = Int64(clamping: total) - Int64(clamping: others) - Int64(clamping: allocated)
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
                "free": .number(free),
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
}
