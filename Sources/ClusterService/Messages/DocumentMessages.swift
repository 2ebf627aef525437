internal import Bytes
internal import Vocabulary

/// An administrator's operation on one document, passed to the node that serves the document.
struct DocumentCall: ExtensibleFields, Hashable {
    var bucket = ""
    var key: [UInt8] = []
    var action = DocumentAction.read

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&bucket, "bucket")
        try coder.field(&key, "key")
        try coder.field(&action, "action")
    }
}

/// Requests the key of some document in a node's memory; answered with a `KeyListing` of one
/// key, or none.
struct RandomKeyCall: ExtensibleFields, Hashable {
    var bucket = ""

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&bucket, "bucket")
    }
}

/// Requests the first keys of a range among the documents that a node serves.
struct ListingCall: ExtensibleFields, Hashable {
    var bucket = ""
    var from: [UInt8]?
    var to: [UInt8]?
    var inclusiveEnd = false
    var limit = 0

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&bucket, "bucket")
        try Self.code(&from, &coder, "start")
        try Self.code(&to, &coder, "end")
        try coder.field(&inclusiveEnd, "inclusive end")
        try coder.field(&limit, "limit")
    }

    /// Codes a bound as a flag and a key, which is empty without a bound.
    private static func code(
        _ bound: inout [UInt8]?,
        _ coder: inout some Coder,
        _ name: StaticString
    ) throws(CodingFailure) {
        var (isGiven, key) = (bound != nil, bound ?? [])
        try coder.field(&isGiven, name)
        try coder.field(&key, name)
        bound = isGiven ? key : nil
    }
}
