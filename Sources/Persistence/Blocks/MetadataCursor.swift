package import Bytes
package import Vocabulary

/// Iterates over the documents of one run of a block: metadata, key and value length, no values.
///
/// Visitors receive the cursor once per run, not per document, so that a visitor locks its vBucket
/// once and loops inside.
///
/// - `key` is borrowed: valid until the next `next()`.
/// - `open` validates the whole block, so `next()` cannot fail.
package final class MetadataCursor {
    /// One decoded document.
    private struct Row {
        var cas: UInt64
        var revision: UInt64
        var flags: UInt32
        var expiry: UInt32
        var valueLength: UInt32
        /// The offset of the key's unshared remainder within the raw metadata.
        var keyOffset: UInt32
        var state: UInt8
        var keyShared: UInt8
        var keyRest: UInt8
    }

    private(set) var runs: [BlockRun] = []
    private(set) var documents = 0
    private let seqnos: UnsafeMutablePointer<UInt64>
    private let rows: UnsafeMutablePointer<Row>
    private let keyBytes: UnsafeMutableRawPointer
    private let raw = ByteWriter(capacity: 16 << 10)

    private var index = -1
    private var end = 0
    /// The document whose key `keyBytes` holds.
    private var keyIndex = -1
    private var keyLength = 0

    init() {
        seqnos = .allocate(capacity: BlockBounds.documentsMax)
        rows = .allocate(capacity: BlockBounds.documentsMax)
        keyBytes = Memory.allocate(256)
    }

    deinit {
        seqnos.deallocate()
        rows.deallocate()
        Memory.free(keyBytes)
    }

    /// Advances to the next document of the run; false at the run's end.
    package func next() -> Bool {
        guard index + 1 < end else { return false }
        index += 1
        return true
    }

    package var seqno: Seqno { Seqno(seqnos[index]) }

    /// The value's length in bytes.
    package var valueLength: Int { Int(rows[index].valueLength) }

    package var meta: DocumentMeta {
        let row = rows[index]
        return DocumentMeta(
            seqno: Seqno(seqnos[index]),
            cas: CAS(row.cas),
            revision: row.revision,
            flags: row.flags,
            expiry: row.expiry,
            datatype: Datatype(rawValue: row.state >> DocumentBuffer.State.datatypeShift),
            isDeleted: row.state & DocumentBuffer.State.deleted != 0,
            isExpired: row.state & DocumentBuffer.State.expired != 0
        )
    }

    /// The key of the current document, borrowed until the next `next()`.
    package var key: ByteView {
        if keyIndex != index { buildKey() }
        return ByteView(start: keyBytes, count: keyLength)
    }

    /// Rebuilds the current key from the keys before it, because keys are stored as differences to
    /// the previous key.
    private func buildKey() {
        if keyIndex > index { keyIndex = -1 }
        for step in keyIndex + 1...index {
            let row = rows[step]
            let rest = raw.view.slice(Int(row.keyOffset), Int(row.keyRest))
            Memory.copy(to: keyBytes + Int(row.keyShared), from: rest.start, count: rest.count)
            keyLength = Int(row.keyShared) + rest.count
        }
        keyIndex = index
    }

    // MARK: For block readers

    /// The place of the current document within the block.
    var place: Int { index }

    /// The cursor's position, to return to within the same run.
    var position: Int {
        get { index }
        set { index = newValue }
    }

    /// Selects the run at `runs[number]`; the cursor is before its first document.
    func select(run number: Int) {
        let start = runs[..<number].reduce(0) { $0 + $1.count }
        index = start - 1
        end = start + runs[number].count
    }

    /// Moves to the document of `vBucket` with `seqno`; false if the block does not contain it.
    func select(_ vBucket: UInt16, _ seqno: UInt64) -> Bool {
        guard let found = RunTable.index(of: seqno, in: vBucket, runs, seqnos) else { return false }
        index = found
        end = found + 1
        return true
    }

    /// Selects the documents after `seqno` in the first run of `vBucket` that has any; false if no
    /// run has.
    func select(_ vBucket: UInt16, after seqno: UInt64) -> Bool {
        guard let indexes = RunTable.indexes(of: vBucket, after: seqno, runs, seqnos) else {
            return false
        }
        index = indexes.lowerBound - 1
        end = indexes.upperBound
        return true
    }

    /// Decodes a meta blob's content; false if it is invalid.
    func open(_ content: ByteView) -> Bool {
        index = -1
        end = 0
        keyIndex = -1
        guard let (rawCount, length) = LEB128.decode(content), rawCount > 0,
            rawCount <= UInt64(BlockBounds.metaBytesMax)
        else { return false }
        let compressed = content.dropFirst(length)
        raw.removeAll()
        guard rawCount <= UInt64(compressed.count) * UInt64(BlockBounds.expansionMax),
            LZ4.decompress(compressed, rawCount: Int(rawCount), to: raw)
        else { return false }
        return decodeColumns()
    }

    private func decodeColumns() -> Bool {
        var reader = ByteReader(raw.view)
        guard let count = RunTable.readSeqnos(&reader, into: &runs, seqnos),
            let states = reader.bytes(count)
        else { return false }
        documents = count
        for place in 0..<count {
            rows[place] = Row(
                cas: 0,
                revision: 1,
                flags: 0,
                expiry: 0,
                valueLength: 0,
                keyOffset: 0,
                state: states[place],
                keyShared: 0,
                keyRest: 0
            )
        }
        return decodeCAS(&reader) && decodeOptional(&reader) && decodeKeys(&reader)
    }

    private func decodeCAS(_ reader: inout ByteReader) -> Bool {
        guard let least = reader.bigEndian(UInt64.self), let width = reader.bigEndian(UInt8.self),
            width <= 8, let planes = reader.bytes(Int(width) * documents)
        else { return false }
        // Plane by plane, so that both arrays are accessed sequentially.
        for place in 0..<documents { rows[place].cas = 0 }
        for plane in 0..<Int(width) {
            let bytes = planes.slice(plane * documents, documents).buffer
            for place in 0..<documents {
                rows[place].cas = rows[place].cas << 8 | UInt64(bytes[place])
            }
        }
        for place in 0..<documents {
            let (cas, overflow) = least.addingReportingOverflow(rows[place].cas)
            guard !overflow else { return false }
            rows[place].cas = cas
        }
        return true
    }

    private func decodeOptional(_ reader: inout ByteReader) -> Bool {
        for place in 0..<documents where rows[place].state & DocumentBuffer.State.revision != 0 {
            guard let revision = reader.leb128() else { return false }
            rows[place].revision = revision
        }
        for place in 0..<documents where rows[place].state & DocumentBuffer.State.flags != 0 {
            guard let flags = reader.bigEndian(UInt32.self) else { return false }
            rows[place].flags = flags
        }
        for place in 0..<documents where rows[place].state & DocumentBuffer.State.expiry != 0 {
            guard let expiry = reader.bigEndian(UInt32.self) else { return false }
            rows[place].expiry = expiry
        }
        for place in 0..<documents {
            guard let length = reader.leb128(), length <= UInt64(BlockBounds.valueBytesMax) else {
                return false
            }
            rows[place].valueLength = UInt32(length)
        }
        return true
    }

    private func decodeKeys(_ reader: inout ByteReader) -> Bool {
        guard let shared = reader.bytes(documents), let rests = reader.bytes(documents) else {
            return false
        }
        var before = 0
        var offset = raw.count - reader.rest.count
        for place in 0..<documents {
            let length = Int(shared[place]) + Int(rests[place])
            guard Int(shared[place]) <= before, 1...255 ~= length,
                reader.bytes(Int(rests[place])) != nil
            else { return false }
            rows[place].keyShared = shared[place]
            rows[place].keyRest = rests[place]
            rows[place].keyOffset = UInt32(offset)
            offset += Int(rests[place])
            before = length
        }
        return reader.isAtEnd
    }
}

extension RunTable {
    /// The indexes of the documents after `seqno` in the first run of `vBucket` that has any; nil if
    /// no run has.
    static func indexes(
        of vBucket: UInt16,
        after seqno: UInt64,
        _ runs: [BlockRun],
        _ seqnos: UnsafeMutablePointer<UInt64>
    ) -> Range<Int>? {
        var start = 0
        for run in runs {
            let end = start + run.count
            if run.vBucket == vBucket, run.last > seqno {
                while seqnos[start] <= seqno { start += 1 }
                return start..<end
            }
            start = end
        }
        return nil
    }

    /// The index of a document within a block; nil if the block does not contain it.
    static func index(
        of seqno: UInt64,
        in vBucket: UInt16,
        _ runs: [BlockRun],
        _ seqnos: UnsafeMutablePointer<UInt64>
    ) -> Int? {
        var start = 0
        for run in runs {
            if run.vBucket == vBucket, run.first <= seqno, seqno <= run.last {
                var low = start
                var high = start + run.count
                while low < high {
                    let middle = (low + high) / 2
                    if seqnos[middle] < seqno { low = middle + 1 } else { high = middle }
                }
                return low < start + run.count && seqnos[low] == seqno ? low : nil
            }
            start += run.count
        }
        return nil
    }
}
