package import Bytes
package import Vocabulary

/// An item of a vBucket's feed as bytes, from the feed's encoding to the index that reads it.
///
/// The feed encodes items while it holds the vBucket's lock, or on a lane that reads the disk; the
/// index decodes them later on its own lane. Both are in one process, so the numbers are in the
/// processor's order, and a malformed record is a bug.
///
/// Layout: kind (1), then by kind: `snapshot` start (8), end (8); `document` and `tombstone` seqno
/// (8), CAS (8), revision (8), flags (4), expiry (4), datatype (1), key length (2), value length (4),
/// key, value; `advanced` seqno (8); `purged` and `ended` nothing.
package enum ChangeRecord {
    /// The changes up to `end` follow; they are consistent only together.
    case snapshot(start: Seqno, end: Seqno)
    /// A document or, by its metadata, a tombstone; key and value are borrowed.
    case change(DocumentMeta, key: ByteView, value: ByteView)
    /// Every visible change through this seqno was sent.
    case advanced(to: Seqno)
    /// Tombstones after the reader's position were purged.
    case purged
    /// The copy or its history has changed: the feed ends.
    case ended

    private enum Kind: UInt8 {
        case snapshot = 1
        case document = 2
        case tombstone = 3
        case advanced = 4
        case purged = 5
        case ended = 6
    }

    /// Appends the record to `output`.
    package func append(to output: ByteWriter) {
        switch self {
        case .snapshot(let start, let end):
            output.append(Kind.snapshot.rawValue)
            output.append(littleEndian: start.value)
            output.append(littleEndian: end.value)
        case .change(let meta, let key, let value):
            output.append((meta.isDeleted ? Kind.tombstone : .document).rawValue)
            output.append(littleEndian: meta.seqno.value)
            output.append(littleEndian: meta.cas.value)
            output.append(littleEndian: meta.revision)
            output.append(littleEndian: meta.flags)
            output.append(littleEndian: meta.expiry)
            output.append(meta.datatype.rawValue)
            output.append(littleEndian: UInt16(key.count))
            output.append(littleEndian: UInt32(value.count))
            output.append(key)
            output.append(value)
        case .advanced(let seqno):
            output.append(Kind.advanced.rawValue)
            output.append(littleEndian: seqno.value)
        case .purged: output.append(Kind.purged.rawValue)
        case .ended: output.append(Kind.ended.rawValue)
        }
    }

    /// Decodes the records of a view, in order.
    package struct Reader {
        private var bytes: ByteReader

        package init(_ view: ByteView) {
            bytes = ByteReader(view)
        }

        /// The next record; nil at the end.
        package mutating func next() -> ChangeRecord? {
            guard !bytes.isAtEnd else { return nil }
            guard let kind = bytes.littleEndian(UInt8.self).flatMap(Kind.init),
                let record = read(kind)
            else { preconditionFailure("a feed's records are whole") }
            return record
        }

        private mutating func read(_ kind: Kind) -> ChangeRecord? {
            switch kind {
            case .snapshot:
                guard let start = bytes.littleEndian(UInt64.self),
                    let end = bytes.littleEndian(UInt64.self)
                else { return nil }
                return .snapshot(start: Seqno(start), end: Seqno(end))
            case .document, .tombstone: return readChange(isDeleted: kind == .tombstone)
            case .advanced:
                return bytes.littleEndian(UInt64.self).map { .advanced(to: Seqno($0)) }
            case .purged: return .purged
            case .ended: return .ended
            }
        }

        private mutating func readChange(isDeleted: Bool) -> ChangeRecord? {
            guard let seqno = bytes.littleEndian(UInt64.self),
                let cas = bytes.littleEndian(UInt64.self),
                let revision = bytes.littleEndian(UInt64.self),
                let flags = bytes.littleEndian(UInt32.self),
                let expiry = bytes.littleEndian(UInt32.self),
                let datatype = bytes.littleEndian(UInt8.self),
                let keyCount = bytes.littleEndian(UInt16.self),
                let valueCount = bytes.littleEndian(UInt32.self),
                let key = bytes.bytes(Int(keyCount)), let value = bytes.bytes(Int(valueCount))
            else { return nil }
            let meta = DocumentMeta(
                seqno: Seqno(seqno),
                cas: CAS(cas),
                revision: revision,
                flags: flags,
                expiry: expiry,
                datatype: Datatype(rawValue: datatype),
                isDeleted: isDeleted
            )
            return .change(meta, key: key, value: value)
        }
    }
}
