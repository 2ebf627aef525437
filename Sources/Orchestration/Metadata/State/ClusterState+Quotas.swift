internal import Vocabulary

/// The bucket quotas against the memory quota of a node: one rule, checked by forms when a request
/// arrives and again when its entry is applied.
///
/// - The buckets' quotas together stay within `memoryQuota`, which holds on every node.
/// - Every node's machine can provide `memoryQuota` (`MemoryQuota`). A node restarted on a smaller
///   machine serves with a warning: refusing to start would be worse.
extension ClusterState {
    /// Bytes of the memory quota not assigned to a bucket; those of the bucket `name` count as
    /// free.
    package func freeQuota(except name: String? = nil) -> UInt64 {
        memoryQuota - min(memoryQuota, bucketQuotas(except: name))
    }

    /// Whether a bucket may have this quota.
    ///
    /// - Parameters:
    ///   - quota: Bytes on each node.
    ///   - bucket: The bucket before the change; nil for a new one.
    /// - Returns: Whether it fits; always true if the bucket keeps or lowers its quota.
    package func allows(bucketQuota quota: UInt64, for bucket: BucketRecord?) -> Bool {
        if let bucket, quota <= bucket.settings.quota { return true }
        return quota <= freeQuota(except: bucket?.settings.name)
    }

    /// Whether the existing buckets fit into a memory quota of `quota` bytes.
    package func allows(memoryQuota quota: UInt64) -> Bool { bucketQuotas() <= quota }

    /// A node whose machine cannot provide a memory quota of `quota` bytes; nil if all can.
    ///
    /// A node that never reported its memory counts as large enough.
    package func nodeTooSmall(forMemoryQuota quota: UInt64) -> NodeRecord? {
        members.first { $0.memoryTotal != 0 && !Self.canGive(quota, of: $0.memoryTotal) }
    }

    /// Whether a machine with `memoryTotal` bytes can provide a quota of `quota` bytes.
    static func canGive(_ quota: UInt64, of memoryTotal: UInt64) -> Bool {
        quota <= MemoryQuota.megabytesMax(memoryTotal: memoryTotal) << 20
    }

    /// The bytes on `nodes` nodes together if a quota is `quota` bytes on each.
    ///
    /// `UInt64.max` if the product does not fit into 64 bits: forms also show quotas that they
    /// refuse.
    package static func bytes(ofQuota quota: UInt64, onNodes nodes: UInt64) -> UInt64 {
        let (product, isTooLarge) = quota.multipliedReportingOverflow(by: nodes)
        return isTooLarge ? .max : product
    }

    /// Bytes by which the bucket quotas exceed the memory quota; always 0, as checkers verify.
    package var quotaExcess: UInt64 { bucketQuotas() - min(memoryQuota, bucketQuotas()) }
}
