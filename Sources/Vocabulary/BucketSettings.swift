/// Where a bucket's documents live, and so what it promises.
package enum BucketType: String, Sendable {
    /// In memory and on disk. REST says `membase`.
    case persistent = "membase"
    /// In memory only.
    case ephemeral = "ephemeral"
}

/// What happens to a bucket's documents when memory runs short.
package enum EvictionPolicy: String, Sendable {
    /// Keys and metadata stay, values may go (persistent buckets).
    case valueOnly
    /// Whole documents may go (persistent buckets).
    case fullEviction
    /// Nothing goes; writes are refused (ephemeral buckets).
    case noEviction
    /// The least used documents are deleted (ephemeral buckets).
    case nruEviction
}

/// Everything an administrator chose about a bucket.
package struct BucketSettings: Hashable, Sendable {
    package var name: String
    /// 32 hexadecimal digits.
    package var uuid: String
    package var type: BucketType
    /// On each node, in bytes.
    package var quota: UInt64
    package var replicas: Int
    package var evictionPolicy: EvictionPolicy
    package var vBuckets: Int
    package var flushEnabled: Bool
    /// Clients may use the bucket without a password, as clients of long ago do.
    package var passwordless: Bool
    /// New documents live no longer: seconds, or 0 for as long as they like.
    package var maxTTL: UInt32
    /// What every write is lifted to that asks for less; nil for nothing.
    package var minimumDurability: DurabilityLevel?

    /// Seconds that deleted documents are remembered.
    package var purgeSeconds: UInt32 {
        type == .persistent ? Limits.purgeSeconds : Limits.ephemeralPurgeSeconds
    }

    package init(name: String, uuid: String, quota: UInt64) {
        self.name = name
        self.uuid = uuid
        self.quota = quota
        type = .persistent
        replicas = 1
        evictionPolicy = .valueOnly
        vBuckets = Limits.vBucketsDefault
        flushEnabled = false
        passwordless = false
        maxTTL = 0
    }
}
