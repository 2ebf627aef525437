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

/// What a responder states before its rows.
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

extension QueryReply {
    private enum Kind {
        static let start: UInt8 = 1
        static let rows: UInt8 = 2
        static let groups: UInt8 = 3
        static let end: UInt8 = 4
        static let failed: UInt8 = 5
        static let moved: UInt8 = 6
        static let notReady: UInt8 = 7
    }

    /// Appends the payload of one frame: its kind, then its fields up to the frame's end.
    package func append(to output: ByteWriter) {
        let writer = RecordWriter(output)
        switch self {
        case .start(let start):
            writer.byte(Kind.start)
            writer.number(start.indexRows)
            writer.number(start.builtPercent)
            writer.vBuckets(start.missing)
        case .rows(let batch):
            writer.byte(Kind.rows)
            batch.append(to: output)
        case .groups(let batch):
            writer.byte(Kind.groups)
            batch.append(to: output)
        case .end: writer.byte(Kind.end)
        case .failed(let reason):
            writer.byte(Kind.failed)
            writer.text(reason)
        case .moved(let revision):
            writer.byte(Kind.moved)
            writer.number(revision)
        case .notReady(let signature):
            writer.byte(Kind.notReady)
            writer.bytes(signature.bytes)
        }
    }

    /// - Throws: `QueryMessageError` if the bytes are not a reply.
    package init(_ bytes: ByteView) throws(QueryMessageError) {
        var reader = RecordReader(bytes)
        let kind = try reader.byte("kind")
        switch kind {
        case Kind.start:
            let rows = try reader.number("rows of the index", UInt64.self)
            let percent = try reader.number("progress", Int.self)
            guard percent <= 100 else { throw .invalid("progress") }
            let missing = try reader.vBuckets("missing vBuckets")
            self = .start(QueryStart(indexRows: rows, builtPercent: percent, missing: missing))
        case Kind.rows: self = .rows(try RowBatch(bytes.dropFirst(1)))
        case Kind.groups: self = .groups(try RowBatch(bytes.dropFirst(1)))
        case Kind.end: self = .end
        case Kind.failed: self = .failed(try reader.text("reason"))
        case Kind.moved: self = .moved(try reader.number("map revision", UInt64.self))
        case Kind.notReady:
            guard let signature = try reader.signature("index") else { throw .invalid("index") }
            self = .notReady(signature)
        default: throw .unknownKind(kind)
        }
    }
}
