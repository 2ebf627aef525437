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

/// Bounds of topology changes: moves, failure detection, failover.
extension Limits {
    /// Copies that a node builds, and copies that other nodes build from it, at a time.
    ///
    /// Couchbase's default. Fewer leave the disk idle; more slow clients down.
    package static let movesPerNodeDefault = 4
    /// Items, per `movesPerNode`, of all copies that a node builds (or feeds) at a time.
    ///
    /// While they have fewer, more copies are built at a time: small copies cost log entries, not
    /// data, and a wave of them ends before the next wave's entry is applied. Bytes in flight
    /// between two nodes stay bounded by `replicationWindowBytes`, whatever the number of copies.
    package static let lightBuildItems: UInt64 = 4_096
    /// Copies that a node builds, or feeds, at a time, however small: one log entry has all rows of
    /// a wave, and its commit pays off from about a hundred rows on.
    package static let buildsPerNodeMax = 256
    /// Takeovers at a time in which a node takes part.
    ///
    /// They share entries of the metadata log, so a vBucket's writes wait for the rest of its own
    /// stream and one commit. More takeovers would only lengthen the shared entry.
    package static let takeOversPerNodeMax = 64
    /// vBuckets handed over by one call: writes of all of them wait for the slowest.
    package static let takeOversPerCallMax = 16
    /// Built copies that are not in their chain yet: each costs a stream, no disk work.
    package static let movesFinishingPerNodeMax = 256

    /// A copy counts as caught up if it lags by at most this many changes.
    package static let caughtUpLagItemsMax: UInt64 = 100
    /// A move's fixed cost (two log entries, a takeover), as a number of items.
    package static let moveFixedWeight: UInt64 = 200
    /// The pause between two attempts to hand over, in which waiting writes proceed.
    package static let handOverRetryMilliseconds: UInt64 = 100
    /// After this many attempts, prepares that block the hand-over end as ambiguous.
    package static let handOverTriesMax = 10
    /// A hand-over fails if the node does not answer for this long: a later answer carries an old
    /// fence and is ignored.
    package static let handOverSilenceMilliseconds: UInt64 = 2_000
    /// How long a stopped rebalance waits for moves in their joint phase (both chains count).
    package static let stopWaitMilliseconds: UInt64 = 1_000
    /// How long the unfinished copies of a stopped rebalance are kept for the next rebalance.
    package static let keptBuildMilliseconds: UInt64 = 600_000
    /// A move without participants or progress fails after this long.
    package static let moveStalledMilliseconds: UInt64 = 600_000
    /// A rebalance that waits for data which only a failed-over node has fails after this long: the
    /// node cannot be recovered while a rebalance runs.
    package static let failedOverWaitMilliseconds: UInt64 = 20_000
    /// Log the blocking condition after this long without progress of any move.
    package static let rebalanceSilenceMilliseconds: UInt64 = 30_000
    /// The delay before a paused move is retried; it doubles each time, up to the second bound.
    package static let moveRetryMillisecondsMin: UInt64 = 5_000
    package static let moveRetryMillisecondsMax: UInt64 = 60_000

    /// A node is suspected after this long without a beat from it: three beats.
    package static let suspectMilliseconds: UInt64 = 300
    /// A node whose machine refuses connections is not down before this time: its process may start again.
    package static let goneMilliseconds: UInt64 = 1_000
    /// A node that was down counts as up after this many beats in a row.
    package static let beatsUntilUp = 3
    /// A node that went down and up again this often, within the window below, is unstable.
    package static let unstableReturns = 3
    package static let unstableWindowMilliseconds: UInt64 = 60_000
    /// A node's report on its peers is valid for this long; each beat brings a new one.
    package static let tableFreshMilliseconds: UInt64 = 300
    /// A new leader without beats from a majority waits this long: it may itself be disconnected.
    package static let leaderGraceMilliseconds: UInt64 = 10_000
    /// With fewer than three voters, no node can tell a dead peer from a broken link.
    package static let autoFailoverVotersMin = 3
}

/// Bounds of local users, which every node keeps in memory as part of the agreed state.
extension Limits {
    /// Local users of a cluster: one for each application, not one for each person that it serves.
    package static let usersMax = 1_000
    /// Bytes of a user's id, as in Couchbase Server.
    package static let userIDBytesMax = 128
    /// Bytes of a user's full name.
    package static let userNameBytesMax = 256
    /// Bytes of a user's stored keys: those of three mechanisms need about 700.
    package static let userCredentialsBytesMax = 4 << 10
    /// Bytes that all local users may take, each with its roles and `userOverheadBytes`: the agreed
    /// state is encoded and sent as a whole.
    package static let usersBytesMax = 2 << 20
    /// Bytes that count for a user besides its texts and keys.
    package static let userOverheadBytes = 64
}

/// Bounds of design documents, which every node keeps in memory as part of the agreed state.
extension Limits {
    /// Bytes of a design document's text: a hundred long functions fit.
    package static let designDocumentBytesMax = 1 << 20
    /// Bytes that all design documents of a cluster may take, each with its name and
    /// `designOverheadBytes`: the agreed state is encoded and sent as a whole.
    package static let designDocumentsBytesMax = 4 << 20
    /// Bytes that count for a design document besides its name and its text: what a node keeps of
    /// the smallest one.
    package static let designOverheadBytes = 64
    /// Bytes of a design document's name: with `_design/` it is a document's key.
    package static let designNameBytesMax = keyBytesMax - "_design/".utf8.count
    /// Views of a design document: each becomes an index on every node.
    package static let viewsMax = 256
    /// Views of all buckets: each index has memory and open files on every node while its bucket changes.
    package static let viewsOfAllMax = 1_000
}
