internal import Vocabulary

/// The bounds of queries of other nodes, each with its reason.
///
/// A query is one stream of the service `views`. Its first message is the `QueryRequest`; each later one of
/// the coordinator is a credit. Each message of the responder is a `QueryReply`; the last one ends the stream.
package enum QueryLimits {
    /// Queries that a coordinator has at one node at a time.
    ///
    /// It bounds what the node holds for replies that are not sent yet: the credit of each query.
    package static let queriesMax = 64
    /// Queries of one coordinator that a responder accepts at a time.
    ///
    /// More than `queriesMax`: the end of a cancelled query may arrive after the query that replaces it.
    package static let acceptedMax = 2 * queriesMax
    /// Bytes of a request, which the link checks.
    ///
    /// The largest one has `keys`: each of their sort keys (8 MiB in all) is in two bounds, with some ten
    /// bytes besides each. Once a request is complete, its keys count in `KeyMemory`.
    package static let requestBytesMax = NodeService.views.row.messageBytesMax
    /// Bytes of a reply: a batch is sent at 64 KiB, and one row, with a value of 1 MiB, may follow.
    package static let replyBytesMax = 4 << 20
    /// The message by which a coordinator requests one more batch.
    package static let creditMessage: [UInt8] = [1]
}
