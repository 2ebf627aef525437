public import Bytes
package import Vocabulary

/// The request with which the collector of an HTTP feed opens a stream to a node that has copies.
package struct ChangesOpening: Hashable, Sendable {
    /// The bucket's UUID.
    package var bucket: String
    /// Whether changes have the values of documents.
    package var hasValues: Bool
    /// How many vBuckets may be inside a snapshot at a time.
    package var snapshotsMax: UInt16

    package init(bucket: String, hasValues: Bool, snapshotsMax: UInt16) {
        self.bucket = bucket
        self.hasValues = hasValues
        self.snapshotsMax = snapshotsMax
    }
}

extension ChangesOpening: ExtensibleFields {
    package init() { self.init(bucket: "", hasValues: false, snapshotsMax: 0) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&bucket, "bucket")
        try coder.field(&hasValues, "values")
        try coder.field(&snapshotsMax, "snapshots")
        try coder.require(snapshotsMax > 0, "snapshots")
    }
}

/// A record of an HTTP feed's stream about the changes of one vBucket.
///
/// A message of the stream is a sequence of records, each with the vBucket's number in this feed before it.
/// The collector counts these numbers from 1, and never uses one again.
@usableFromInline
package protocol ChangesRecord: Coded {}

extension ChangesRecord {
    /// Appends the number and the record.
    @inlinable
    package func append(_ number: UInt32, to output: ByteWriter) {
        var writer = FieldWriter(output)
        number.write(to: &writer)
        write(to: &writer)
    }

    /// Calls `body` with each record of a message and its number.
    ///
    /// - Throws: `CodingFailure` at the first record that is invalid.
    @inlinable
    package static func forEach(
        in message: ByteView,
        _ body: (UInt32, Self) throws(CodingFailure) -> Void
    ) throws(CodingFailure) {
        var reader = FieldReader(message)
        while !reader.isAtEnd {
            let number: UInt32 = try reader.payload()
            try body(number, try Self(from: &reader))
        }
    }
}

/// A record of the collector.
package enum HTTPFeedRequest: Hashable, Sendable {
    /// Opens a vBucket under a new number.
    case open(VBucketID, ChangesPosition)
    case close
    /// The other side may send changes, of all vBuckets: before, it only answers `open`. The number is 0.
    case begin
}

extension HTTPFeedRequest: ChangesRecord {
    package func write(to writer: inout FieldWriter) {
        switch self {
        case .open(let vBucket, let position): writer.kind(1, vBucket, position)
        case .close: writer.kind(2)
        case .begin: writer.kind(3)
        }
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("request") {
        case 1: self = .open(try reader.payload(), try reader.payload())
        case 2: self = .close
        case 3: self = .begin
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
}

extension ChangesPosition: CodedFields {
    package init() { self = .start }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&seqno, "seqno")
        try coder.field(&snapshotStart, "start of the snapshot")
        try coder.require(snapshotStart <= seqno, "start of the snapshot")
        try coder.field(&snapshotEnd, "end of the snapshot")
        try coder.require(seqno <= snapshotEnd, "end of the snapshot")
        try coder.field(&branch, "branch")
        try coder.require(branch != .none || seqno == .zero, "branch")
    }
}

extension ChangesPosition.Branch: Coded {
    package func write(to writer: inout FieldWriter) {
        switch self {
        case .none: writer.kind(0)
        case .uuid(let uuid): writer.kind(1, uuid)
        case .check(let check):
            writer.kind(2, UInt8(check.width))
            writer.output.append(bigEndian: check.bits)
        case .latest: writer.kind(3)
        }
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("branch") {
        case 0: self = .none
        case 1: self = .uuid(try reader.payload())
        case 2:
            let width = Int(try reader.readFixed(UInt8.self))
            try reader.require((1...BranchCheck.widthMax).contains(width), "width of the check")
            self = .check(BranchCheck(bits: try reader.readFixed(), width: width))
        case 3: self = .latest
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
}

/// A record of the node that has the copies; keys and values are borrowed.
package enum ChangesMessage {
    /// The changes begin after `start`, of this history.
    ///
    /// Everything that clients could see then has a seqno of at most `high`.
    case opened(VBucketUUID, start: Seqno, high: Seqno)
    /// The consumer's changes after this seqno are not in the history of this UUID; the number is over.
    case rolledBack(VBucketUUID, to: Seqno)
    /// Deletions after the position were purged; the number is over.
    case purged
    /// This node does not serve the vBucket now; the number is over.
    case unavailable
    case snapshot(start: Seqno, end: Seqno)
    case change(HTTPFeedRow)
    /// The consumer has everything through this seqno.
    case advanced(to: Seqno)
    /// The number is over; its consumer opens another one.
    case ended
}

extension ChangesMessage: ChangesRecord {
    package func write(to writer: inout FieldWriter) {
        switch self {
        case .opened(let uuid, let start, let high): writer.kind(1, uuid, start, high)
        case .rolledBack(let uuid, let seqno): writer.kind(2, uuid, seqno)
        case .purged: writer.kind(3)
        case .unavailable: writer.kind(4)
        case .snapshot(let start, let end): writer.kind(5, start, end)
        case .change(let row): writer.kind(6, row)
        case .advanced(let seqno): writer.kind(7, seqno)
        case .ended: writer.kind(8)
        }
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("message") {
        case 1:
            let uuid: VBucketUUID = try reader.payload()
            self = .opened(uuid, start: try reader.payload(), high: try reader.payload())
        case 2: self = .rolledBack(try reader.payload(), to: try reader.payload())
        case 3: self = .purged
        case 4: self = .unavailable
        case 5:
            let (start, end): (Seqno, Seqno) = (try reader.payload(), try reader.payload())
            try reader.require(start <= end, "end of the snapshot")
            self = .snapshot(start: start, end: end)
        case 6: self = .change(try reader.payload())
        case 7: self = .advanced(to: try reader.payload())
        case 8: self = .ended
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
}

/// A change of a document, as an HTTP feed shows it; key and value are borrowed.
package struct HTTPFeedRow {
    package let seqno: Seqno
    package let cas: CAS
    package let isDeleted: Bool
    /// The document expired; it is also deleted.
    package let isExpired: Bool
    package let key: ByteView
    /// The document's value without extended attributes; nil if the feed has no values, or the document is deleted.
    package let value: ByteView?

    /// - Parameters:
    ///   - change: The change.
    ///   - hasValue: Whether the row has the value of a document.
    package init(_ change: DCPChange, hasValue: Bool) {
        seqno = change.meta.seqno
        cas = change.meta.cas
        isDeleted = change.meta.isDeleted
        isExpired = change.meta.isExpired
        key = change.key
        let isSent = hasValue && !change.meta.isDeleted
        value = isSent ? XattrBlob.body(of: change.value, change.meta.datatype) : nil
    }
}

extension HTTPFeedRow: Coded {
    package func write(to writer: inout FieldWriter) {
        seqno.write(to: &writer)
        cas.write(to: &writer)
        let flags: UInt8 = (isDeleted ? 1 : 0) | (isExpired ? 2 : 0) | (value != nil ? 4 : 0)
        writer.output.append(flags)
        writer.write(number: key.count)
        writer.output.append(key)
        guard let value else { return }
        writer.write(number: value.count)
        writer.output.append(value)
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        seqno = try reader.payload()
        cas = try reader.payload()
        let flags = try reader.readFixed(UInt8.self)
        try reader.require(flags < 8, "flags")
        isDeleted = flags & 1 != 0
        isExpired = flags & 2 != 0
        key = try reader.readView(try reader.readNumber())
        value = flags & 4 != 0 ? try reader.readView(try reader.readNumber()) : nil
    }
}
