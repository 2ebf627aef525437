package import Bytes
package import Vocabulary

/// A message from a responder to the coordinator of a query.
///
/// A responder sends `start`, then `rows` or `groups` as the coordinator's credit allows, then `end`;
/// or one of the others at any time, which ends its answer.
package enum QueryReply: Equatable, Sendable {
    case start(QueryStart)
    case rows(RowBatch)
    /// Partial values of groups. A row's key is the sort key of the group's key; it is empty if the
    /// query has one group of all rows.
    case groups(RowBatch)
    case end
    /// The responder could not answer; the text says why.
    case failed(String)
    /// A vBucket is not served there, according to the map of this revision.
    case moved(UInt64)
    /// This index is not built there.
    case notReady(IndexSignature)
}

/// The state of the index, which a responder sends before its rows.
package struct QueryStart: Equatable, Sendable {
    /// The rows of the asked vBuckets in the index: a part of `total_rows`.
    package var indexRows: UInt64
    /// How much of the index is built, in percent.
    package var builtPercent: Int
    /// The asked vBuckets whose rows the index does not have completely yet, in ascending order; none
    /// of their rows is in the answer.
    package var missing: [VBucketID]

    package init(indexRows: UInt64, builtPercent: Int = 100, missing: [VBucketID] = []) {
        self.indexRows = indexRows
        self.builtPercent = builtPercent
        self.missing = missing
    }
}

// MARK: Encoding

/// One message of a stream: decode it with `skipsRest`.
extension QueryReply: Coded {
    package func write(to writer: inout FieldWriter) {
        switch self {
        case .start(let start): writer.kind(1, start)
        case .rows(let batch): writer.kind(2, batch)
        case .groups(let batch): writer.kind(3, batch)
        case .end: writer.kind(4)
        case .failed(let reason): writer.kind(5, reason)
        case .moved(let revision): writer.kind(6, revision)
        case .notReady(let signature): writer.kind(7, signature)
        }
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("reply") {
        case 1: self = .start(try reader.payload())
        case 2: self = .rows(try reader.payload())
        case 3: self = .groups(try reader.payload())
        case 4: self = .end
        case 5: self = .failed(try reader.payload())
        case 6: self = .moved(try reader.payload())
        case 7: self = .notReady(try reader.payload())
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
}

extension QueryStart: CodedFields {
    package init() { self.init(indexRows: 0) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&indexRows, "rows of the index")
        try coder.field(&builtPercent, "progress")
        try coder.require(builtPercent <= 100, "progress")
        try coder.ascending(&missing, "missing vBuckets")
    }
}
