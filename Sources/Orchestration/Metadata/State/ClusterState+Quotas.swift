internal import Vocabulary

/// The memory quotas of buckets against the memory quota of a node: one rule, asked by forms on
/// arrival and by the log.
///
/// - The buckets' quotas together stay within `memoryQuota`, which holds on every node.
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

    /// Bytes that the buckets have together beyond the memory quota; 0 in a sound state.
    package var quotaExcess: UInt64 { bucketQuotas() - min(memoryQuota, bucketQuotas()) }
}
