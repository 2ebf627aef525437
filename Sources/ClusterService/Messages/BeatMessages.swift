internal import Bytes
internal import Orchestration
internal import Vocabulary

/// A beat, which every node sends to every other node, with the nodes that the sender suspects.
///
/// The answer to it is a `LeaseReply`.
struct BeatMessage: ExtensibleFields, Hashable {
    var beat = LeaseBeat()
    /// Nodes whose beats have not reached the sender for a while, with the duration of the silence.
    var suspects: [FailureTable.Suspicion] = []
    /// Whether every bucket of the sender serves.
    var isReady = false

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&beat, "beat")
        try coder.field(&suspects, "suspects")
        try coder.field(&isReady, "ready")
    }
}

/// Seqno digests of the served vBuckets by node and bucket, sent twice a second: those of the
/// sender, and the last received ones of each silent node.
struct ServedMessage: ExtensibleFields, Hashable {
    struct Row: ExtensibleFields, Hashable {
        /// The node that serves these vBuckets.
        var node = NodeNumber(0)
        var uuid = ""
        var highs = ActiveSeqnoDigest()

        mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
            try coder.field(&node, "node")
            try coder.field(&uuid, "bucket")
            try coder.field(&highs, "highest seqnos")
        }
    }

    var rows: [Row] = []

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&rows, "rows")
    }
}
