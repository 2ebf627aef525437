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
        ChangesFrame.append(.open, number, to: output) { output in
            output.append(bigEndian: vBucket.number)
            output.append(bigEndian: position.seqno.value)
            output.append(bigEndian: position.snapshotStart.value)
            output.append(bigEndian: position.snapshotEnd.value)
            switch position.branch {
            case .none: output.append(UInt8(0))
            case .uuid(let uuid):
                output.append(UInt8(1))
                output.append(bigEndian: uuid.value)
            case .check(let check):
                output.append(UInt8(2))
                output.append(UInt8(check.width))
                output.append(bigEndian: check.bits)
            case .latest: output.append(UInt8(3))
            }
        }
    }

    /// Decodes the payload of `open`; nil if it is invalid.
    package init?(_ payload: ByteView) {
        var reader = ByteReader(payload)
        guard let vBucket = reader.bigEndian(UInt16.self),
            let seqno = reader.seqno(), let start = reader.seqno(), let end = reader.seqno(),
            start <= seqno, seqno <= end,
            let kind = reader.bigEndian(UInt8.self)
        else { return nil }
        var position = ChangesPosition(branch: .none, seqno: seqno)
        position.snapshotStart = start
        position.snapshotEnd = end
        switch kind {
        case 0 where seqno == .zero: position.branch = .none
        case 1:
            guard let uuid = reader.bigEndian(UInt64.self) else { return nil }
            position.branch = .uuid(VBucketUUID(uuid))
        case 2:
            guard let width = reader.bigEndian(UInt8.self),
                (1...UInt8(BranchCheck.widthMax)).contains(width),
                let bits = reader.bigEndian(UInt32.self)
            else { return nil }
            position.branch = .check(BranchCheck(bits: bits, width: Int(width)))
        case 3: position.branch = .latest
        default: return nil
        }
        guard reader.isAtEnd else { return nil }
        self.init(vBucket: VBucketID(vBucket), position: position)
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

    /// Decodes a frame of the node that has the copies; nil if it is invalid.
    package init?(_ frame: ChangesFrame) {
        var reader = ByteReader(frame.payload)
        switch frame.kind {
        case .opened:
            guard let uuid = reader.bigEndian(UInt64.self), let start = reader.seqno(),
                let high = reader.seqno()
            else { return nil }
            self = .opened(VBucketUUID(uuid), start: start, high: high)
        case .rolledBack:
            guard let uuid = reader.bigEndian(UInt64.self), let seqno = reader.seqno() else {
                return nil
            }
            self = .rolledBack(VBucketUUID(uuid), to: seqno)
        case .purged: self = .purged
        case .unavailable: self = .unavailable
        case .snapshot:
            guard let start = reader.seqno(), let end = reader.seqno(), start <= end else {
                return nil
            }
            self = .snapshot(start: start, end: end)
        case .change:
            guard let row = ChangesRow(&reader) else { return nil }
            self = .change(row)
        case .advanced:
            guard let seqno = reader.seqno() else { return nil }
            self = .advanced(to: seqno)
        case .ended: self = .ended
        case .pong: self = .pong
        case .begin, .open, .close, .credit, .ping: return nil
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

    fileprivate init?(_ reader: inout ByteReader) {
        guard let seqno = reader.seqno(), let cas = reader.bigEndian(UInt64.self),
            let flags = reader.bigEndian(UInt8.self), flags < 8,
            let length = reader.bigEndian(UInt16.self), let key = reader.bytes(Int(length))
        else { return nil }
        self.seqno = seqno
        self.cas = CAS(cas)
        isDeleted = flags & 1 != 0
        isExpired = flags & 2 != 0
        self.key = key
        value = flags & 4 != 0 ? reader.rest : nil
    }
}

extension ByteReader {
    /// Reads a seqno; nil if too few bytes are left, or it has more than 48 bits.
    fileprivate mutating func seqno() -> Seqno? {
        guard let value = bigEndian(UInt64.self), value >> 48 == 0 else { return nil }
        return Seqno(value)
    }
}
