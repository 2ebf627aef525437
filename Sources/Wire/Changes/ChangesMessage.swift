package import Bytes
package import Vocabulary

/// What the connection of an HTTP feed between two nodes is for.
package struct ChangesOpening: Hashable, Sendable {
    /// The bucket's UUID.
    package var bucket: String
    /// Whether changes have the values of documents.
    package var hasValues: Bool
    /// How many streams may be inside a snapshot at a time.
    package var snapshotsMax: UInt16

    package init(bucket: String, hasValues: Bool, snapshotsMax: UInt16) {
        self.bucket = bucket
        self.hasValues = hasValues
        self.snapshotsMax = snapshotsMax
    }

    package func append(to output: ByteWriter) {
        ChangesFrame.append(.begin, to: output) { output in
            output.append(UInt8(hasValues ? 1 : 0))
            output.append(bigEndian: snapshotsMax)
            output.append(text: bucket)
        }
    }

    /// Decodes the payload of `begin`; nil if it is invalid.
    package init?(_ payload: ByteView) {
        var reader = ByteReader(payload)
        guard let flags = reader.bigEndian(UInt8.self), flags <= 1,
            let snapshots = reader.bigEndian(UInt16.self), snapshots > 0,
            let bucket = String(validating: reader.rest.bytes, as: UTF8.self)
        else { return nil }
        self.init(bucket: bucket, hasValues: flags == 1, snapshotsMax: snapshots)
    }
}

/// The request for a stream of one vBucket.
package struct ChangesStreamRequest: Hashable, Sendable {
    package var vBucket: VBucketID
    package var position: ChangesPosition

    package init(vBucket: VBucketID, position: ChangesPosition) {
        self.vBucket = vBucket
        self.position = position
    }

    package func append(_ number: UInt32, to output: ByteWriter) {
        ChangesFrame.append(.open, number, to: output) { append(to: $0) }
    }
}

/// The payload of `open`.
extension ChangesStreamRequest: CodedFields {
    package init() { self.init(vBucket: VBucketID(0), position: .start) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        var number = vBucket.number
        try coder.fixed(&number, "vBucket")
        vBucket = VBucketID(number)
        try coder.seqno(&position.seqno, "seqno")
        try coder.seqno(&position.snapshotStart, "start of the snapshot")
        try coder.require(position.snapshotStart <= position.seqno, "start of the snapshot")
        try coder.seqno(&position.snapshotEnd, "end of the snapshot")
        try coder.require(position.seqno <= position.snapshotEnd, "end of the snapshot")
        try coder.field(&position.branch, "branch")
        try coder.require(position.branch != .none || position.seqno == .zero, "branch")
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

/// A message about a stream, from the node that has the copy; keys and values are borrowed.
package enum ChangesMessage {
    /// The stream begins after `start`, of this history.
    ///
    /// Everything that clients could see then has a seqno of at most `high`.
    case opened(VBucketUUID, start: Seqno, high: Seqno)
    /// The consumer's changes after this seqno are not in the history of this UUID.
    case rolledBack(VBucketUUID, to: Seqno)
    case purged
    case unavailable
    case snapshot(start: Seqno, end: Seqno)
    case change(ChangesRow)
    case advanced(to: Seqno)
    case ended
    case pong

    package func append(_ number: UInt32, to output: ByteWriter) {
        switch self {
        case .opened(let uuid, let start, let high):
            ChangesFrame.append(.opened, number, to: output) { output in
                output.append(bigEndian: uuid.value)
                output.append(bigEndian: start.value)
                output.append(bigEndian: high.value)
            }
        case .rolledBack(let uuid, let seqno):
            ChangesFrame.append(.rolledBack, number, to: output) { output in
                output.append(bigEndian: uuid.value)
                output.append(bigEndian: seqno.value)
            }
        case .purged: ChangesFrame.append(.purged, number, to: output)
        case .unavailable: ChangesFrame.append(.unavailable, number, to: output)
        case .snapshot(let start, let end):
            ChangesFrame.append(.snapshot, number, to: output) { output in
                output.append(bigEndian: start.value)
                output.append(bigEndian: end.value)
            }
        case .change(let row):
            ChangesFrame.append(.change, number, to: output) { row.append(to: $0) }
        case .advanced(let seqno):
            ChangesFrame.append(.advanced, number, to: output) { output in
                output.append(bigEndian: seqno.value)
            }
        case .ended: ChangesFrame.append(.ended, number, to: output)
        case .pong: ChangesFrame.append(.pong, to: output)
        }
    }

    /// - Throws: `CodingFailure` if the frame is none of the node that has the copies.
    package init(_ frame: ChangesFrame) throws(CodingFailure) {
        var reader = FieldReader(frame.payload)
        switch frame.kind {
        case .opened:
            self = .opened(
                try reader.payload(),
                start: try reader.seqno("start"),
                high: try reader.seqno("high seqno")
            )
        case .rolledBack:
            self = .rolledBack(try reader.payload(), to: try reader.seqno("position"))
        case .purged: self = .purged
        case .unavailable: self = .unavailable
        case .snapshot:
            let (start, end) = (try reader.seqno("start"), try reader.seqno("end"))
            try reader.require(start <= end, "end")
            self = .snapshot(start: start, end: end)
        case .change: self = .change(try ChangesRow(&reader))
        case .advanced: self = .advanced(to: try reader.seqno("seqno"))
        case .ended: self = .ended
        case .pong: self = .pong
        case .begin, .open, .close, .credit, .ping:
            throw reader.failure(.unknownKind(frame.kind.rawValue))
        }
    }
}

/// A change of a document, as an HTTP feed shows it; key and value are borrowed.
package struct ChangesRow {
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

    fileprivate func append(to output: ByteWriter) {
        output.append(bigEndian: seqno.value)
        output.append(bigEndian: cas.value)
        let flags: UInt8 = (isDeleted ? 1 : 0) | (isExpired ? 2 : 0) | (value != nil ? 4 : 0)
        output.append(flags)
        output.append(bigEndian: UInt16(key.count))
        output.append(key)
        if let value { output.append(value) }
    }

    fileprivate init(_ reader: inout FieldReader) throws(CodingFailure) {
        seqno = try reader.seqno("seqno")
        cas = try reader.payload()
        let flags = try reader.readFixed(UInt8.self)
        try reader.require(flags < 8, "flags")
        isDeleted = flags & 1 != 0
        isExpired = flags & 2 != 0
        key = try reader.readView(Int(try reader.readFixed(UInt16.self)))
        value = flags & 4 != 0 ? try reader.readView(reader.bytesLeft) : nil
    }
}

extension Coder {
    /// Eight bytes, at most `Seqno.last`.
    fileprivate mutating func seqno(
        _ seqno: inout Seqno,
        _ name: StaticString
    ) throws(CodingFailure) {
        var value = seqno.value
        try fixed(&value, name)
        try require(value <= Seqno.last.value, name)
        seqno = Seqno(value)
    }
}

extension FieldReader {
    fileprivate mutating func seqno(_ name: StaticString) throws(CodingFailure) -> Seqno {
        var seqno = Seqno.zero
        try self.seqno(&seqno, name)
        return seqno
    }
}
