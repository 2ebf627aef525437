/// Every bound in the system, in one place, each with its reason.
///
/// Those that every request is compared with are computed: other modules then see a constant, and
/// not a call for its address.
@usableFromInline
package enum Limits {
    /// Bytes of a key, collection prefix not counted: what Couchbase allows in the default
    /// collection.
    @inlinable package static var keyBytesMax: Int { 250 }
    /// Bytes of a value: what Couchbase allows; beyond it clients expect "too big".
    ///
    /// Extended attributes of users count as part of the value.
    @inlinable package static var valueBytesMax: Int { 20 << 20 }
    /// Bytes of the key of an extended attribute: what Couchbase allows.
    @inlinable package static var xattrKeyBytesMax: Int { 15 }
    /// Bytes of a document's system attributes, beside `valueBytesMax`, as in Couchbase: a document
    /// of the largest size can still be synchronized by a gateway.
    @inlinable package static var systemXattrBytesMax: Int { 1 << 20 }
    /// Attributes of a document.
    ///
    /// The other clients of a reactor wait while the names of a request's attributes are compared, and
    /// 20 MiB have room for three million.
    @inlinable package static var xattrCountMax: Int { 8_192 }
    /// Bytes of a value with all its attributes, as it is in memory, on disk and on the streams
    /// between nodes: the total length of the attributes has four bytes.
    @inlinable package static var storedValueBytesMax: Int {
        4 + valueBytesMax + systemXattrBytesMax
    }
    /// Bytes of a request's value that has system attributes beside a document of the largest size:
    /// a stored value, and 16 paths of a sub-document request with their lengths.
    package static let attributedRequestBytesMax = storedValueBytesMax + 16 * (1_024 + 8)
    /// Bytes of a whole frame: a longer frame counts as a protocol error and closes the connection.
    package static let frameBytesMax = 30 << 20
    /// Bytes of a frame before authentication: a HELLO or a SASL step fits several times over.
    package static let frameBytesMaxBeforeLogin = 4 << 10
    /// Bytes that a client's connection may hold whatever other connections hold.
    ///
    /// Applies to input, to unread replies and to parked requests separately. A frame before
    /// authentication fits, and so do most documents.
    @inlinable package static var connectionBytes: Int { 64 << 10 }
    /// Bytes of an answer to OBSERVE: more than 20 000 keys of 30 bytes.
    ///
    /// Older clients that wait for durability put all keys of a node into one request.
    package static let observeBytesMax = 1 << 20
    /// Bytes of parked requests of one connection: beyond it the connection completes them in
    /// order.
    package static let parkedBytesMax = 1 << 20
    /// Bytes beyond `connectionBytes` that all clients' connections may hold on a node, by default.
    ///
    /// Applies to input, to unread replies and to parked requests separately.
    ///
    /// - 64 MiB at least: two of the largest frames, so that a stalled large write does not block
    ///   all other large writes.
    /// - A 64th of memory: on small machines it fits into the memory outside the quotas.
    /// - 256 MiB at most: a dozen of the largest values in flight. More would not make writes
    ///   faster, since reactors receive one frame at a time.
    package static func clientBytesMax(memory: UInt64) -> Int {
        Int(min(256 << 20, max(64 << 20, memory / 64)))
    }
    /// Bytes of a value that is transformed under its vBucket's lock: parsing it blocks the
    /// vBucket's other requests for tens of microseconds.
    package static let lockedTransformBytesMax = 32 << 10
    /// Attempts of an update whose document other writers keep changing.
    package static let updateAttemptsMax = 32
    /// Couchbase's default, which its clients expect.
    package static let vBucketsDefault = 1_024
    /// Many clients store a vBucket number in 10 bits.
    package static let vBucketCounts = [64, 128, 256, 1_024]
    /// Entries of a failover log: Couchbase's bound.
    package static let failoverEntriesMax = 25
    /// The largest expiry that is relative, in seconds: memcached's 30 days.
    package static let relativeExpiryMax: UInt32 = 2_592_000
    /// Seconds that a lock (GETL) lasts if the request has no time, or one over `lockSecondsMax`.
    package static let lockSecondsDefault: UInt32 = 15
    package static let lockSecondsMax: UInt32 = 30
    /// The smallest quota of a bucket, in bytes: the minimum that Couchbase accepts.
    package static let bucketQuotaMin: UInt64 = 100 << 20
    /// Seconds that tombstones of persistent buckets are kept: Couchbase's default of three days,
    /// so that clients that were disconnected over a weekend still receive the deletions.
    package static let purgeSeconds: UInt32 = 259_200
    /// The same for ephemeral buckets, whose tombstones use memory that documents need.
    package static let ephemeralPurgeSeconds: UInt32 = 86_400
    /// Bytes in a reply buffer at which it is sent before the next request is executed: keeps one
    /// deep pipeline from filling memory with large values.
    package static let repliesBytesMax = 256 << 10
    /// Changes in one commit: more would save little per change and delay waiting writers.
    package static let commitChangesMax = 10_000
    /// Bytes in one commit.
    package static let commitBytesMax = 8 << 20
    /// The longest that the oldest unpersisted change waits for its commit to begin.
    package static let commitDelayMillisecondsMax = 250
    /// The age at which a change must be committed under any load, disk permitting: below the two
    /// seconds that we promise, because a commit that begins in time may meet a slow disk.
    package static let commitAgeMillisecondsMax = 1_700
    /// Open files of an index while it is updated and read: two connections of its database, with
    /// their write-ahead logs, and the shared index of the log.
    package static let descriptorsPerIndex = 5
    /// If no change of a lane file was persisted for so long although one waits, writes to its vBuckets
    /// are refused: the age of changes that a crash may lose, as promised.
    package static let persistenceStallMilliseconds = 2_000
    /// Below that age, all lanes of a bucket together write for one part of time in this many: they
    /// use a quarter of a core, and repeated changes of a key are merged in memory.
    package static let commitRestFactor = 4
    /// The delay of a commit that a rebalance requests, so that its requests for many vBuckets, one
    /// after the other, share a commit.
    package static let commitGatherMilliseconds: UInt64 = 30
    /// Bytes of one bucket's changes in flight between two nodes: fills a fast network for some
    /// milliseconds, and a hundred buckets still fit into memory.
    package static let replicationWindowBytes = 4 << 20
    /// A backfill without progress for this long is ended, since it holds blocks.
    package static let backfillStallMilliseconds: UInt64 = 180_000
    /// The longest that a copy rejects writes for a hand-over.
    package static let handOverMilliseconds: UInt64 = 250
    /// How long a stream request waits for a map that this node has not received yet.
    package static let mapWaitMilliseconds: UInt64 = 5_000
    /// The shortest interval between two cluster maps pushed to a connection: a rebalance changes
    /// the map with every vBucket.
    package static let pushMilliseconds: UInt64 = 100
}
