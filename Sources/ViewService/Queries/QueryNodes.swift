package import Indexing
package import Vocabulary

/// The nodes to which the coordinator of a query sends requests.
///
/// This node and the others look the same here, but for the thread of their events. The calls for a query
/// come one at a time.
package protocol QueryNodes: Sendable {
    /// Sends a request to a node.
    ///
    /// - Parameters:
    ///   - request: The node's part of the query.
    ///   - node: The node, or this one.
    ///   - event: Called with each reply in order, from any thread, also before this call returns;
    ///     not after the end of the call.
    /// - Returns: The call, which lasts until its last reply, a loss or a cancellation.
    func send(
        _ request: QueryRequest,
        to node: NodeNumber,
        _ event: @escaping @Sendable (QueryNodeEvent) -> Void
    ) -> any QueryCall
    /// Whether the node is this one, so that the events of its calls come on threads that may work for
    /// the query; those of other nodes come on threads that must not be delayed.
    func answersHere(_ node: NodeNumber) -> Bool
}

extension QueryNodes {
    package func answersHere(_ node: NodeNumber) -> Bool { false }
}

/// One node's work for a query, as the coordinator steers it.
///
/// A responder sends up to `RowMerge.creditMax` batches at once, then one more for each credit.
package protocol QueryCall: Sendable {
    /// The responder may send one more batch.
    func addCredit()
    /// Ends the call; the responder releases its snapshot.
    func cancel()
}

/// A node's reply to a request, or the failure of the call.
package enum QueryNodeEvent: Sendable {
    case reply(QueryReply)
    /// The connection was lost, or a reply could not be read; the text says why. Ends the call.
    case lost(String)
}

/// The nodes that serve the vBuckets of a bucket, as this node has them.
package protocol ServingMapSource: Sendable {
    /// The newest map; nil if this node does not have the bucket.
    func servingMap(ofBucket uuid: String) -> QueryCoordination.ServingMap?
    /// Calls `changed` with each newer map, from any thread, until the observation is cancelled.
    func observe(
        bucket uuid: String,
        _ changed: @escaping @Sendable (QueryCoordination.ServingMap) -> Void
    ) -> any Observation
    /// The node's view port as `host:port`.
    func name(of node: NodeNumber) -> String
}

/// Lasts until it is cancelled.
package protocol Observation: Sendable {
    /// Ends the observation; a call that has begun may still arrive.
    func cancel()
}

/// The documents of the cluster's buckets, on whichever node they are.
package protocol DocumentLookup: Sendable {
    /// Reads the newest version of a document.
    func document(_ id: [UInt8], inBucket name: String) async -> IncludedDocumentOutcome
}

/// The result of reading a document for `include_docs`.
package enum IncludedDocumentOutcome: Hashable, Sendable {
    case found(IncludedDocument)
    /// There is none: it was deleted since its row was indexed.
    case missing
    /// Whether there is one is not known; a sentence with the cause.
    case failed(String)
}

/// A document as `include_docs` shows it; both are JSON texts.
///
/// The body is a string in base64 if the member `type` of `meta` says so.
package struct IncludedDocument: Hashable, Sendable {
    package let meta: [UInt8]
    package let body: [UInt8]

    package init(meta: [UInt8], body: [UInt8]) {
        self.meta = meta
        self.body = body
    }
}
