/// Where a bucket's documents are stored.
package enum BucketType: String, Sendable {
    /// In memory and on disk. REST says `membase`.
    case persistent = "membase"
    /// In memory only.
    case ephemeral = "ephemeral"
}

/// What a bucket removes from memory when memory runs short.
package enum EvictionPolicy: String, Sendable {
    /// Values are ejected; keys and metadata stay in memory (persistent buckets).
    case valueOnly
    /// Whole documents are ejected (persistent buckets).
    case fullEviction
    /// Nothing is ejected; writes are rejected (ephemeral buckets).
    case noEviction
    /// The least recently used documents are deleted (ephemeral buckets).
    case nruEviction
}

/// The settings of a bucket, as an administrator configured them.
package struct BucketSettings: Hashable, Sendable {
    package var name: String
    /// 32 hexadecimal digits.
    package var uuid: String
    package var type: BucketType
    /// Bytes on each node.
    package var quota: UInt64
    package var replicas: Int
    package var evictionPolicy: EvictionPolicy
    package var vBuckets: Int
    package var flushEnabled: Bool
    /// From where clients may use the bucket without a password, as very old clients do.
    package var passwordless: PasswordlessAccess
    /// The text of the keys of the bucket's own password (`StoredCredentials.text`); empty if it has
    /// none.
    package var password: [UInt8]
    /// The longest lifetime of a new document in seconds; 0 for no bound.
    package var maxTTL: UInt32
    /// Writes with a weaker level are raised to this level; nil raises none.
    package var minimumDurability: DurabilityLevel?

    /// Seconds for which tombstones are kept.
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
        passwordless = .none
        password = []
        maxTTL = 0
    }
}
