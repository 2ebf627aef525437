package import Indexing
package import ScriptProcesses
package import Vocabulary

/// The buckets and indexes that a node serves to queries.
///
/// - Called from any thread.
package protocol ServedBuckets: Sendable {
    /// The vBuckets of a bucket that this node serves; nil if the node does not have the bucket.
    func state(ofBucket uuid: String) -> ServedVBuckets?
    /// The index with this signature; nil if the node does not have it, or does not have it open. One at
    /// rest is opened for the query.
    func index(_ signature: IndexSignature, ofBucket uuid: String) -> ViewIndex?
    /// Whether an index that was at rest is being opened for a query.
    func isWaking(_ signature: IndexSignature, ofBucket uuid: String) -> Bool
    /// Whether the node opens an index with this signature, or has it open.
    func needsIndex(_ signature: IndexSignature, ofBucket uuid: String) -> Bool
    /// Why the index of this signature is not there although it should be: its file cannot be opened.
    /// A sentence with cause and cure for clients; nil if there is no such obstacle.
    func obstacle(to signature: IndexSignature, ofBucket uuid: String) -> String?
    /// The reduction of a slot; nil if no view of the bucket has it.
    func reduction(_ slot: IndexSignature, ofBucket uuid: String) -> QueryReduction?
}

/// The vBuckets of a bucket that a node serves.
package struct ServedVBuckets: Equatable, Sendable {
    /// The revision of the cluster map that assigned them.
    package let revision: UInt64
    private let vBuckets: VBucketMask
    /// The same, in ascending order.
    private let list: [VBucketID]

    package init(revision: UInt64, vBuckets: Set<VBucketID>) {
        self.revision = revision
        self.vBuckets = VBucketMask(vBuckets)
        list = vBuckets.sorted()
    }

    /// Whether the node serves all of these.
    func contains(allOf vBuckets: [VBucketID]) -> Bool {
        // Nearly every query is of all of them.
        vBuckets.isSame(as: list) || vBuckets.allSatisfy { self.vBuckets.contains($0) }
    }
}

/// The reduction of a view's rows on a responder: the kind of the slot.
package enum QueryReduction: Equatable, Sendable {
    /// `_count`. Partial values are `NumericPartial`, which have the number of rows only.
    case count
    /// `_sum` and `_stats`, which have the same partial values: `NumericPartial`. The coordinator
    /// refuses values that its reduction does not accept.
    case numbers
    /// A function of the author. Partial values are its results.
    case custom(ScriptFunction)
}
