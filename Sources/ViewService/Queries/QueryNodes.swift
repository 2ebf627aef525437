package import Indexing
package import Vocabulary

/// One node's work for a query, as the coordinator steers it.
///
/// A responder may send `RowMerge.creditMax` batches at once, then one for each credit.
package protocol QueryCall: Sendable {
    /// Allows one more batch.
    func addCredit()
    /// Ends the work; no reply follows.
    func cancel()
}

/// What a request to a node brings, in order; `lost` ends it.
package enum QueryNodeEvent: Sendable {
    case reply(QueryReply)
    /// The connection to the node ended; the text says why.
    case lost(String)
}

/// The nodes of the cluster, as the coordinator of a query reaches them.
package protocol QueryNodes: Sendable {
    /// Sends a request; its replies are passed to `event`.
    func send(
        _ request: QueryRequest,
        to node: NodeNumber,
        _ event: @escaping @Sendable (QueryNodeEvent) -> Void
    ) -> any QueryCall
}
