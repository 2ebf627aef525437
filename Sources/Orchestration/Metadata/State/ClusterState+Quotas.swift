internal import Vocabulary

/// The memory quotas of buckets against the memory quota of a node: one rule, asked by forms on
/// arrival and by the log.
///
/// - The buckets' quotas together stay within `memoryQuota`, which holds on every node.
/// - Every node's machine can give `memoryQuota` (`MemoryQuota`). A node that was started again on a
///   smaller machine serves all the same, with a warning: a node that does not start serves nothing.
/// - A release before this one could agree on more. Such a state is kept; no command makes it worse.
extension ClusterState {
    /// Bytes of the memory quota that no bucket has; those of the bucket `name` count as free.
    package func freeQuota(except name: String? = nil) -> UInt64 {
        memoryQuota - min(memoryQuota, bucketQuotas(except: name))
    }

    /// Whether a bucket may have so many bytes on each node.
    ///
    /// - Parameters:
    ///   - quota: In bytes.
    ///   - bucket: The bucket as it is; nil for a new one.
    /// - Returns: Also true where the bucket keeps its quota or lowers it.
    package func allows(bucketQuota quota: UInt64, for bucket: BucketRecord?) -> Bool {
        if let bucket, quota <= bucket.settings.quota { return true }
        return quota <= freeQuota(except: bucket?.settings.name)
    }

    /// Whether the buckets fit into a memory quota of so many bytes.
    package func allows(memoryQuota quota: UInt64) -> Bool { bucketQuotas() <= quota }

    /// A node whose machine cannot give a memory quota of so many bytes; nil if all can.
    ///
    /// A node that never said how much memory it has is taken for large enough.
    package func nodeTooSmall(forMemoryQuota quota: UInt64) -> NodeRecord? {
        members.first { $0.memoryTotal != 0 && !Self.canGive(quota, of: $0.memoryTotal) }
    }

    /// Whether a machine with so many bytes of memory can give a quota of so many bytes.
    static func canGive(_ quota: UInt64, of memoryTotal: UInt64) -> Bool {
        quota <= MemoryQuota.megabytesMax(memoryTotal: memoryTotal) << 20
    }

    /// Bytes that the buckets have together beyond the memory quota; 0 in a sound state.
    package var quotaExcess: UInt64 { bucketQuotas() - min(memoryQuota, bucketQuotas()) }
}
