internal import Bytes
package import Vocabulary

/// Writes of and over documents with extended attributes.
///
/// - A write that replaces a body keeps the attributes of a live document. If they are on disk
///   only, the write waits for the value.
/// - A tombstone keeps the system attributes of its document. A document that is created over a
///   tombstone has none of them, unless the write has them in its value.
extension VBucketCore {
    /// The CAS and the seqno that the next version, or prepare, gets in this hold of the lock.
    package func upcoming(_ turn: borrowing ExecutionContext) -> (cas: CAS, seqno: Seqno) {
        var clock = clock
        return (clock.next(turn.wallNanoseconds), Seqno(highSeqno.value + 1))
    }

    /// Whether the version has extended attributes that are on disk only.
    @inline(__always)
    func awaitsAttributes(_ item: Item) -> Bool {
        item.state.isSuperset(of: [.hasAttributes, .valueEjected])
    }

    /// The rest of `store` for a request with a whole stored form or for a tombstone, and for a
    /// document with attributes; the request's conditions hold.
    @inline(never)
    mutating func storeWithAttributes(
        _ request: borrowing StoreRequest,
        over old: Item?,
        at place: HashTable.Place?,
        _ turn: borrowing ExecutionContext
    ) -> WriteResult {
        var meta = DocumentMeta(
            flags: request.flags,
            expiry: request.expiry,
            datatype: request.datatype
        )
        if request.preservesExpiry, let old { meta.expiry = old.expiry }
        if request.isDeleted {
            meta.isDeleted = true
            meta.expiry = turn.seconds
        }
        var value = request.value
        if case .keep = request.attributes, let old, old.hasAttributes {
            guard let kept = old.attributes else { return .wait(.value(old.seqno)) }
            guard kept.allowsBody(of: value.count) else { return .refused(.tooLarge) }
            let count = kept.byteCount + value.count
            // The old value has to be in memory beside the new one.
            let needed = count + old.valueCount
            guard account.admits(count, of: needed) else { return .wait(.room(needed)) }
            value = Self.join(old.value.slice(0, kept.byteCount), value, in: turn.scratch)
            meta.datatype.insert(.xattr)
        } else {
            guard account.admits(value.count, of: value.count) else {
                return .wait(.room(value.count))
            }
        }
        let (key, hash) = (request.key, request.hash)
        return write(meta, key: key, hash: hash, value: value, place: place, turn)
    }

    /// The part of a document that a tombstone keeps: its system attributes, if it has any.
    ///
    /// The attributes are appended to the turn's scratch buffer, and valid until its next change.
    @inline(__always)
    func tombstoneValue(
        of item: Item,
        _ turn: borrowing ExecutionContext
    ) -> (value: ByteView, datatype: Datatype) {
        item.hasAttributes ? systemAttributes(of: item, turn) : (.empty, [])
    }

    @inline(never)
    private func systemAttributes(
        of item: Item,
        _ turn: borrowing ExecutionContext
    ) -> (value: ByteView, datatype: Datatype) {
        guard let attributes = item.attributes else {
            preconditionFailure("the attributes of a document that is deleted are in memory")
        }
        let start = turn.scratch.count
        guard XattrWriter.appendSystemPairs(of: attributes, to: turn.scratch) else {
            return (.empty, [])
        }
        return (turn.scratch.view.dropFirst(start), .xattr)
    }

    /// Joins views in the scratch buffer, in which they may already lie.
    static func join(
        _ first: ByteView,
        _ second: ByteView,
        _ third: ByteView = .empty,
        in scratch: ByteWriter
    ) -> ByteView {
        let old = UnsafeRawPointer(scratch.start)
        func offset(of part: ByteView) -> Int? {
            part.start >= old && part.start < old + scratch.count ? part.start - old : nil
        }
        let offsets = (offset(of: first), offset(of: second), offset(of: third))
        if offsets == (nil, nil, nil) { scratch.removeAll(keepingAtMost: 1 << 20) }
        let start = scratch.count
        // From here on the buffer does not move.
        scratch.reserve(first.count + second.count + third.count)
        func append(_ part: ByteView, _ offset: Int?) {
            let place = offset.map { UnsafeRawPointer(scratch.start) + $0 } ?? part.start
            scratch.append(ByteView(start: place, count: part.count))
        }
        append(first, offsets.0)
        append(second, offsets.1)
        append(third, offsets.2)
        return scratch.view.dropFirst(start)
    }
}

extension XattrBlob {
    /// Whether a body of this length is within its bound beside the attributes that are no system
    /// attributes.
    func allowsBody(of count: Int) -> Bool {
        pairs.count - systemBytes + count <= Limits.valueBytesMax
    }
}
