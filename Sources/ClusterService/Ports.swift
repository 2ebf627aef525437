package import Credentials
package import Vocabulary

/// What the cluster service needs from the data service, no more.
///
/// `Server` introduces the two. Every call may come from any thread and returns at once; only the
/// document calls wait, because documents may be on disk.
package protocol DataPlane: Sendable {
    /// Removes what is left of buckets that are not among `buckets` (told apart by UUID): a crash
    /// came between forgetting a bucket and removing its files. Called once, before any `open`.
    func retain(only buckets: [BucketSettings])
    /// Opens a bucket, making its files where there are none; answers at once, warmup goes on
    /// behind.
    func open(_ opening: BucketOpening) throws(DataPlaneError)
    func change(_ settings: BucketSettings)
    /// O(1) for the caller; files go in the background.
    func delete(bucket name: String)
    /// The same where the bucket lives on, on nodes that this one does not belong to any more.
    func giveUp(bucket name: String)
    func flush(bucket name: String) throws(DataPlaneError)
    func compact(bucket name: String)
    func status(ofBucket name: String) -> BucketStatus?
    func statistics(ofBucket name: String) -> BucketStatistics?
    /// New configurations for GET_CLUSTER_CONFIG, rendered.
    func publish(global configuration: RenderedConfiguration)
    func publish(_ configuration: RenderedConfiguration, ofBucket name: String)
    /// Who may authenticate by SASL; nil takes the user away.
    func setCredentials(user: String, stored: StoredCredentials?)
    /// Carries out an operation on one document; waits for disk and copies where it has to.
    func perform(
        _ action: DocumentAction,
        on key: [UInt8],
        inBucket name: String
    ) async -> DocumentOutcome
    /// The key of some document in memory; nil where none is found quickly.
    func randomKey(inBucket name: String) -> [UInt8]?
    /// The keys of live documents from `from` up to `to`, sorted, for the browser page.
    func list(
        bucket: String,
        from: [UInt8]?,
        to: [UInt8]?,
        inclusiveEnd: Bool,
        skip: Int,
        limit: Int
    ) async -> KeyListing
    /// What an operator should know now: disk full, metadata above quota, a damaged block.
    func alerts() -> [Alert]

    // MARK: Copies

    /// Carries out what the map says of this node's copies; those that come to a fence of `seals`,
    /// which was promised before the node stopped, act no more under it.
    func follow(_ assignment: BucketAssignment, as own: NodeNumber, seals: [FencedVBucket])
    /// All that this node has of a bucket.
    /// Of all its copies, or of these vBuckets'.
    func reports(bucket name: String, of vBuckets: [VBucketID]?) -> [CopyReport]
    /// How far all that this node serves of a bucket is; nil where it has no such bucket.
    func served(bucket name: String) -> ServedHighs?
    /// How many changes copies here discarded since this was asked last, by bucket: they alone had
    /// them.
    func takeDiscarded() -> [String: UInt64]
    /// Has copies take nothing more from the active ones of these fences, and active ones serve no
    /// more; tells of all that were asked for.
    func seal(bucket name: String, _ vBuckets: [FencedVBucket]) -> [CopyReport]
    /// Has copies take up what the map names them for; returns those that are ready.
    func activate(bucket name: String, _ copies: [CopyActivation]) -> [VBucketID]
    /// Has active copies stop for good, each when all of the next chain has everything; `done` gets
    /// every outcome, once the last is known.
    func handOver(
        bucket name: String,
        _ vBuckets: [FencedVBucket],
        done: @escaping @Sendable ([VBucketID: HandOverOutcome]) -> Void
    )
    /// Nothing is answered for what this node owns once its clock says so; `.max` for never.
    func setLease(endNanoseconds: UInt64)
    /// Every copy that the map has serve does.
    var isReady: Bool { get }
}

/// A bucket as it is opened on this node.
package struct BucketOpening: Sendable {
    package var settings: BucketSettings
    package var assignment: BucketAssignment
    package var own: NodeNumber
    /// The map made it just now: nobody can have written to it before.
    package var isNew: Bool
    /// What was promised before the node stopped.
    package var seals: [FencedVBucket]
    /// The cluster has no other bucket of this name, by all that it has agreed on: files of another
    /// one are of a bucket that was deleted.
    package var isCurrent = false
}

/// Why a bucket could not be opened or flushed: a sentence for an operator.
package struct DataPlaneError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}

/// How far a bucket is from serving everything.
package enum BucketStatus: Hashable, Sendable {
    /// Progress from 0 to 1.
    case warmingUp(Double)
    case ready
    /// A sentence for an operator.
    case failed(String)
}

/// Something that is wrong now.
package struct Alert: Hashable, Sendable {
    /// Stays the same while the same thing is wrong.
    package let id: String
    package let message: String

    package init(id: String, message: String) {
        self.id = id
        self.message = message
    }
}
