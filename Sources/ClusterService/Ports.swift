package import Credentials
package import Orchestration
package import Vocabulary

/// The calls of the data service that the cluster service needs.
///
/// `Server` connects the two. Every call may come from any thread and returns at once; only the
/// document calls wait, because documents may be on disk.
package protocol DataPlane: CompactionPlane, LatencyPlane {
    /// Removes what is left of buckets other than `buckets` (compared by UUID), for example after a
    /// crash between deleting a bucket and removing its files. Called once, before any `open`.
    func retain(only buckets: [BucketSettings])
    /// Opens a bucket, creating its files if there are none; returns at once, warmup continues in
    /// the background.
    ///
    /// - Throws: `DataPlaneError` if the files cannot be created or opened.
    func open(_ opening: BucketOpening) throws(DataPlaneError)
    /// Applies changed settings of a bucket.
    func change(_ settings: BucketSettings)
    /// Deletes a bucket; returns at once, files are removed in the background.
    func delete(bucket name: String)
    /// Like `delete`, on a node that was removed from a cluster in which the bucket continues to
    /// exist.
    func giveUp(bucket name: String)
    /// Empties a bucket on this node.
    ///
    /// - Throws: `DataPlaneError` if its disk cannot be emptied at once; its copies are emptied one
    ///   by one.
    func flush(bucket name: String) throws(DataPlaneError)
    func status(ofBucket name: String) -> BucketStatus?
    func statistics(ofBucket name: String) -> BucketStatistics?
    /// Sets rendered configurations for GET_CLUSTER_CONFIG.
    func publish(global configuration: RenderedConfiguration)
    func publish(_ configuration: RenderedConfiguration, ofBucket name: String)
    /// Lets a user authenticate by SASL, with these grants; without `stored`, removes the user.
    func setCredentials(user: String, stored: StoredCredentials?, grants: Grants)
    /// Carries out an operation on one document; waits for disk and copies if necessary.
    func perform(
        _ action: DocumentAction,
        on key: [UInt8],
        inBucket name: String
    ) async -> DocumentOutcome
    /// The key of any document in memory; nil if none is found quickly.
    func randomKey(inBucket name: String) -> [UInt8]?
    /// The keys of live documents from `from` to `to`, sorted, for the browser page.
    func list(
        bucket: String,
        from: [UInt8]?,
        to: [UInt8]?,
        inclusiveEnd: Bool,
        skip: Int,
        limit: Int
    ) async -> KeyListing
    /// The current alerts for an operator: a full disk, metadata above the quota, a damaged block.
    func alerts() -> [Alert]

    // MARK: Copies

    /// Makes this node's copies follow the map. `seals` are those from before a restart: a copy at
    /// such a fence does not act under it again.
    func follow(_ assignment: BucketAssignment, as own: NodeNumber, seals: [FencedVBucket])
    /// Reports of all copies of a bucket on this node, or of the given vBuckets only.
    func reports(bucket name: String, of vBuckets: [VBucketID]?) -> [CopyReport]
    /// The highest seqnos of the vBuckets that this node serves; nil if it does not have the
    /// bucket.
    func served(bucket name: String) -> ActiveSeqnoDigest?
    /// By bucket: the number of changes that copies here discarded since the last call and that no
    /// other node had.
    func removeDiscardedCounts() -> [String: UInt64]
    /// Seals copies: replicas accept no more changes from the active copies of these fences, and
    /// active copies stop serving. Returns the reports of all requested copies.
    func seal(bucket name: String, _ vBuckets: [FencedVBucket]) -> [CopyReport]
    /// Activates copies under the map's fences; returns the vBuckets whose copies are ready.
    func activate(bucket name: String, _ copies: [CopyActivation]) -> [VBucketID]
    /// Has active copies stop serving for good, each once all copies of the next chain have
    /// everything; `done` receives all outcomes together.
    func handOver(
        bucket name: String,
        _ vBuckets: [FencedVBucket],
        done: @escaping @Sendable ([VBucketID: HandOverOutcome]) -> Void
    )
    /// Sets the end of this node's lease, in monotonic nanoseconds; `.max` for a lease without end.
    func setLease(endNanoseconds: UInt64)
    /// By node: the changes of this node's active copies that the replicas there have not acknowledged.
    ///
    /// It asks each vBucket, so it is meant for rare calls.
    func replicationBacklog(ofBucket name: String) -> [NodeNumber: UInt64]
    /// Whether every copy that must serve by the map does.
    var isReady: Bool { get }
}

/// The requested compaction of documents and purge of tombstones on this node, which the cluster service
/// needs of the data service; every call returns at once.
package protocol CompactionPlane: Sendable {
    /// Begins to compact a bucket's documents; no effect if that runs already.
    ///
    /// - Returns: Whether it runs now, or needs not. False if the bucket is not open, or not loaded.
    func compact(bucket name: String) -> Bool
    /// Ends the compaction between two of its steps; no effect if none runs.
    func cancelCompaction(ofBucket name: String)
    /// How far the compaction is; nil if none runs.
    func compaction(ofBucket name: String) -> CompactionWork?
    /// Purges the tombstones of any age of a bucket on this node, in the background.
    ///
    /// - Returns: False if the bucket is not open here, or its warmup has not ended.
    func purgeTombstones(ofBucket name: String) -> Bool
}

/// The latencies on this node, which the cluster service needs of the data service.
package protocol LatencyPlane: Sendable {
    /// The histograms of a bucket that are not empty; none without the bucket.
    func latencies(ofBucket name: String) -> [LatencyReading]
}

/// Checks the source of a view's function as the process that runs it would read it.
package protocol ScriptCheck: Sendable {
    /// The first error in a source; nil if it has none, or if it cannot be checked now: its view then
    /// reports the error.
    ///
    /// No function of another bucket than `uuid` has run in the process that reads the source.
    func flaw(in source: String, of kind: ScriptKind, forBucket uuid: String) async -> ScriptFlaw?
}

/// The kind of a view's function; the raw values are words for users.
package enum ScriptKind: String, Sendable {
    case map
    case reduce
}

/// An error in the source of a function.
package struct ScriptFlaw: Hashable, Sendable {
    /// From 1, in the author's text.
    package let line: Int
    /// The parser's message.
    package let message: String

    package init(line: Int, message: String) {
        self.line = line
        self.message = message
    }
}

/// The arguments for opening a bucket on this node.
package struct BucketOpening: Sendable {
    package var settings: BucketSettings
    package var assignment: BucketAssignment
    package var own: NodeNumber
    /// The bucket was just created: it cannot have documents from before.
    package var isNew: Bool
    /// Seals from before the restart.
    package var seals: [FencedVBucket]
    /// Whether this is known to be the cluster's current bucket of this name: files of another
    /// bucket with the name then belong to a deleted bucket.
    package var isCurrent = false
}

/// Why a bucket could not be opened or flushed: a sentence for an operator.
package struct DataPlaneError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}

/// The state of a bucket on this node.
package enum BucketStatus: Hashable, Sendable {
    /// Progress from 0 to 1.
    case warmingUp(Double)
    case ready
    /// A sentence for an operator.
    case failed(String)
}

/// A condition that an operator should know about.
package struct Alert: Hashable, Sendable {
    /// Identifies the condition: it stays the same while the condition lasts.
    package let id: String
    package let message: String

    package init(id: String, message: String) {
        self.id = id
        self.message = message
    }
}
