/// Every bound in the system, in one place, each with its reason.
///
/// Those that every request is compared with are computed: other modules then see a constant, and
/// not a call for its address.
@usableFromInline
package enum Limits {
    /// Bytes of a key, collection prefix not counted: what Couchbase allows in the default collection.
    @inlinable package static var keyBytesMax: Int { 250 }
    /// Bytes of a value: what Couchbase allows; beyond it clients expect "too big".
    @inlinable package static var valueBytesMax: Int { 20 << 20 }
    /// Bytes of a whole frame: beyond it the stream is taken for garbage and the connection closed.
    package static let frameBytesMax = 30 << 20
    /// Bytes of a frame before authentication: a HELLO or a SASL step fits many times over.
    package static let frameBytesMaxBeforeLogin = 64 << 10
    /// Bytes that a client's connection may hold whatever other connections hold.
    ///
    /// Of input, of unread replies, and of parked requests, each. A frame before authentication
    /// fits, and so do most documents.
    @inlinable package static var connectionBytes: Int { 64 << 10 }
    /// Bytes of parked requests of one connection: beyond it the connection waits for them in order.
    package static let parkedBytesMax = 1 << 20
    /// Bytes beyond `connectionBytes` that all clients' connections may hold on a node: of input, of
    /// unread replies, and of parked requests, each, if the operator sets none.
    ///
    /// - 64 MiB at least: two of the largest frames, so that large writes go on beside a stalled one.
    /// - A 64th of memory: what quotas leave free covers it on small machines.
    /// - 256 MiB at most: a dozen of the largest values on their way. More would not make writes
    ///   faster, since reactors receive one frame at a time.
    package static func clientBytesMax(memory: UInt64) -> Int {
        Int(min(256 << 20, max(64 << 20, memory / 64)))
    }
    /// Bytes of a value that is transformed under its vBucket's lock: parsing that many takes tens of
    /// microseconds, which the other requests of the vBucket can wait.
    package static let lockedTransformBytesMax = 32 << 10
    /// Attempts of an update whose document other writers keep changing.
    package static let updateAttemptsMax = 32
    /// What clients of Couchbase expect where nobody chose.
    package static let vBucketsDefault = 1_024
    /// A vBucket number is a 10-bit column in many a client.
    package static let vBucketCounts = [64, 128, 256, 1_024]
    /// Older histories are of no use to anyone: Couchbase keeps 25 as well.
    package static let failoverEntriesMax = 25
    /// Relative expiry ends here: 30 days in seconds, as memcached has it.
    package static let relativeExpiryMax: UInt32 = 2_592_000
    /// Seconds that a GETL holds where the client asks for nothing or too much.
    package static let lockSecondsDefault: UInt32 = 15
    package static let lockSecondsMax: UInt32 = 30
    /// Bytes a bucket needs at least: what Couchbase's form accepts.
    package static let bucketQuotaMin: UInt64 = 100 << 20
    /// Seconds that tombstones stay: what Couchbase has where nobody chose, for clients that come
    /// back after a long weekend.
    package static let purgeSeconds: UInt32 = 259_200
    /// The same where there is no disk: they take memory from documents.
    package static let ephemeralPurgeSeconds: UInt32 = 86_400
    /// Bytes that a reply buffer may hold before the connection must take some: keeps one request
    /// of a deep pipeline from filling memory with large values.
    package static let repliesBytesMax = 256 << 10
    /// Changes that one commit takes at most: beyond it the gain per change is small and waiters wait.
    package static let commitChangesMax = 10_000
    /// Bytes that one commit takes at most.
    package static let commitBytesMax = 8 << 20
    /// The oldest unpersisted change waits no longer for its commit to begin.
    package static let commitDelayMillisecondsMax = 250
    /// Under any load every change is on disk by then, as far as the disk goes: well below the two
    /// seconds that we promise, because a commit that begins in time may still meet a slow disk.
    package static let commitAgeMillisecondsMax = 1_700
    /// Until then, a bucket's lanes together rest so many times longer than they work, less one:
    /// a quarter of a core for writing, and changes of a key meet in memory meanwhile.
    package static let commitRestFactor = 4
    /// Where somebody waits for many vBuckets one after the other, as a rebalance does, a commit comes
    /// this late for all that are asked for meanwhile.
    package static let commitGatherMilliseconds: UInt64 = 30
    /// Bytes of changes on their way between two nodes, of one bucket: fills a fast network for
    /// some milliseconds, and a hundred buckets still fit memory.
    package static let replicationWindowBytes = 4 << 20
    /// A side that said nothing for so long is given up; each says something every second.
    package static let replicationSilenceMilliseconds: UInt64 = 3_000
    /// A backfill that gets nowhere for so long is ended, so that it holds no blocks for ever.
    package static let backfillStallMilliseconds: UInt64 = 180_000
    /// A copy that was handed over takes no writes for so long at most.
    package static let handOverMilliseconds: UInt64 = 250
    /// A request for changes of a map that has not come waits so long for it.
    package static let mapWaitMilliseconds: UInt64 = 5_000
    /// A connection is told of changed maps this often at most: a rebalance changes them with
    /// every vBucket.
    package static let pushMilliseconds: UInt64 = 100
}
