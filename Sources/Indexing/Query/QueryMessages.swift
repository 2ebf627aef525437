package import Bytes
package import Vocabulary

/// The request of a query's coordinator to one node.
///
/// One message of a stream. Its parts have their own length. A reader skips bytes behind the fields that
/// it knows, so a later release can add fields to the end of the message and of its parts.
package struct QueryRequest: Equatable, Sendable {
    package var bucket = ""
    /// The cluster map that assigned the vBuckets.
    package var mapRevision: UInt64 = 0
    /// The vBuckets to answer for, and no others; in ascending order.
    package var vBuckets: [VBucketID] = []
    package var index = IndexSelection()
    package var scan = ScanPlan()
    package var freshness = ViewQuery.Freshness.any
    /// The milliseconds in which the responder must start; relative, since clocks differ.
    package var startMillisecondsMax: UInt64 = 0

    /// The index and its part that a query reads.
    package struct IndexSelection: Equatable, Sendable {
        package var choice: IndexChoice
        /// The reduce function's stored values; nil for rows.
        package var slot: IndexSignature?
        /// The version of the collation that made the query's sort keys.
        package var collation: String

        package init(choice: IndexChoice, slot: IndexSignature? = nil, collation: String) {
            self.choice = choice
            self.slot = slot
            self.collation = collation
        }
    }

    /// A request for no vBucket yet; the coordinator adds map and vBuckets for each node.
    package init(
        bucket: String,
        index: IndexSelection,
        scan: ScanPlan,
        freshness: ViewQuery.Freshness
    ) {
        self.bucket = bucket
        self.index = index
        self.scan = scan
        self.freshness = freshness
    }

    package init() {}
}

// MARK: Encoding

extension QueryRequest: ExtensibleFields {
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&bucket, "bucket")
        try coder.field(&mapRevision, "map revision")
        try coder.ascending(&vBuckets, "vBuckets")
        try coder.field(&index, "index")
        try coder.field(&scan, "scan")
        try coder.choice(&freshness, "freshness")
        try coder.field(&startMillisecondsMax, "start")
    }
}

extension QueryRequest.IndexSelection: ExtensibleFields {
    package init() { self.init(choice: IndexChoice(current: IndexSignature()), collation: "") }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&choice.current, "index")
        try coder.signature(&choice.previous, "previous index")
        try coder.field(&choice.usesPrevious, "use of the previous index")
        try coder.require(!choice.usesPrevious || choice.previous != nil, "previous index")
        try coder.signature(&slot, "slot")
        try coder.field(&collation, "collation")
    }
}

extension Coder {
    /// VBuckets in ascending order.
    mutating func ascending(
        _ vBuckets: inout [VBucketID],
        _ name: StaticString
    ) throws(CodingFailure) {
        try field(&vBuckets, name)
        let pairs = zip(vBuckets, vBuckets.dropFirst())
        try require(pairs.allSatisfy { $0.number < $1.number }, name)
    }

    /// A signature, or no bytes for nil.
    fileprivate mutating func signature(
        _ signature: inout IndexSignature?,
        _ name: StaticString
    ) throws(CodingFailure) {
        var bytes = signature?.bytes ?? []
        try field(&bytes, name)
        signature = IndexSignature(bytes)
        try require(bytes.isEmpty || signature != nil, name)
    }
}
