package import Bytes

/// Where a bucket's documents are stored.
package enum BucketType: String, Sendable {
    /// In memory and on disk. REST says `membase`.
    case persistent = "membase"
    /// In memory only.
    case ephemeral = "ephemeral"
}

/// The data that a bucket removes from memory when memory runs short.
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
package struct BucketSettings: Hashable, Sendable, CodedFields {
    package var name = ""
    /// 32 hexadecimal digits.
    package var uuid = ""
    package var type = BucketType.persistent
    /// Bytes on each node.
    package var quota: UInt64 = 0
    package var replicas = 1
    package var evictionPolicy = EvictionPolicy.valueOnly
    package var vBuckets = Limits.vBucketsDefault
    package var flushEnabled = false
    /// From where clients may use the bucket without a password, as very old clients do.
    package var passwordless = PasswordlessAccess.none
    /// The text of the keys of the bucket's own password (`StoredCredentials.text`); empty if it has
    /// none.
    package var password: [UInt8] = []
    /// The longest lifetime of a new document in seconds; 0 for no bound.
    package var maxTTL: UInt32 = 0
    /// Writes with a weaker level are raised to this level; nil raises none.
    package var minimumDurability: DurabilityLevel?

    /// Seconds for which tombstones are kept.
    package var purgeSeconds: UInt32 {
        type == .persistent ? Limits.purgeSeconds : Limits.ephemeralPurgeSeconds
    }

    package init() {}

    package init(name: String, uuid: String, quota: UInt64) {
        self.name = name
        self.uuid = uuid
        self.quota = quota
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&name, "name")
        try coder.field(&uuid, "UUID")
        try coder.choice(&type, "type")
        try coder.choice(&evictionPolicy, "eviction policy")
        try coder.field(&quota, "quota")
        try coder.field(&replicas, "replicas")
        try coder.require(replicas <= UInt8.max, "replicas")
        try coder.field(&vBuckets, "vBuckets")
        try coder.require(vBuckets <= UInt16.max, "vBuckets")
        try coder.field(&maxTTL, "longest lifetime")
        try coder.field(&flushEnabled, "whether a flush is allowed")
        try codeAccess(&coder)
    }

    /// Codes a byte, and the password if there is one.
    ///
    /// Bit 0: the bucket needs no password. Bits 1 and 2 are the durability level; 0 is none.
    /// Bit 3: a password follows. Bit 4, with bit 0: also from the network.
    private mutating func codeAccess(_ coder: inout some Coder) throws(CodingFailure) {
        var access = (minimumDurability?.rawValue ?? 0) << 1 | (password.isEmpty ? 0 : 8)
        switch passwordless {
        case .none: break
        case .loopback: access |= 1
        case .network: access |= 17
        }
        try coder.field(&access, "access")
        let read = access
        try coder.require(read < 32 && read & 17 != 16, "access")
        passwordless = read & 1 == 0 ? .none : read & 16 == 0 ? .loopback : .network
        minimumDurability = DurabilityLevel(rawValue: read >> 1 & 3)
        guard read & 8 != 0 else { return }
        try coder.field(&password, "password")
        try coder.require(!password.isEmpty, "password")
    }
}
