internal import Bytes
internal import Orchestration
internal import Vocabulary

/// The part of a leader's call that concerns one vBucket.
protocol LeaderSubject: ExtensibleFields, Hashable, Sendable {
    var vBucket: VBucketID { get }
}

extension FencedVBucket: LeaderSubject {}

/// A leader's call about copies of one bucket.
///
/// - `index` is the leader's applied index: the receiver applies the log up to it before it carries
///   out the call.
struct LeaderCall<Subject: LeaderSubject>: ExtensibleFields, Hashable {
    var term: UInt64 = 0
    var index: UInt64 = 0
    var bucketUUID = ""
    var subjects: [Subject] = []

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&term, "term")
        try coder.field(&index, "index")
        try coder.field(&bucketUUID, "bucket")
        try coder.field(&subjects, "vBuckets")
    }
}

/// A call to report, seal or hand over copies.
///
/// A report call without vBuckets is about all copies of the node.
typealias VBucketsCall = LeaderCall<FencedVBucket>

/// A call to activate copies.
typealias ActivateCall = LeaderCall<ActivationSubject>

/// The answer to a report or seal call: the current reports of the copies.
struct ReportsAnswer: ExtensibleFields, Hashable {
    var reports: [CopyReport] = []
    /// The reason why the call was not carried out; empty if it was.
    var refusal = ""

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&refusal, "refusal")
        try coder.field(&reports, "reports")
    }
}

extension ActivationSubject: LeaderSubject {}

/// The answer to an activation or hand-over call: the vBuckets for which it was carried out.
///
/// `seqno` is the last seqno of a handed-over copy, and 0 for an activated one.
struct DoneAnswer: ExtensibleFields, Hashable {
    struct Done: ExtensibleFields, Hashable {
        var vBucket = VBucketID(0)
        var seqno = Seqno.zero

        mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
            try coder.field(&vBucket, "vBucket")
            try coder.field(&seqno, "seqno")
        }
    }

    var done: [Done] = []
    var refusal = ""

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&refusal, "refusal")
        try coder.field(&done, "vBuckets")
    }
}
