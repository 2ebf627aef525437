internal import Bytes

/// Encodes one block: its runs, its metadata in columns and its values, each with a checksum.
///
/// The metadata is stored in columns because LZ4 does not compress rows of numbers: the same byte
/// of every CAS, then all lengths, then the keys without the prefix shared with the previous key.
/// docs/storage-format.md describes the layout byte by byte.
///
/// - One writer encodes all blocks of a lane; the three blobs are valid until the next `encode`.
final class BlockWriter {
    let runsBlob = ByteWriter(capacity: 256)
    let metaBlob = ByteWriter(capacity: 8 << 10)
    let bodyBlob = ByteWriter(capacity: 32 << 10)
    private(set) var runs: [BlockRun] = []
    private(set) var rawBytes = 0
    /// Whether values are compressed for size rather than for speed.
    var isSmall = false
    private let seal: BlockSeal
    private let table = ByteWriter(capacity: 1 << 10)
    private let raw = ByteWriter(capacity: 16 << 10)
    private let gathered = ByteWriter(capacity: 16)

    init(seal: BlockSeal) {
        self.seal = seal
    }

    /// Encodes the documents at `order[range]`, sorted by vBucket and seqno, as block `block`.
    func encode(_ documents: DocumentBuffer, _ order: ArraySlice<UInt32>, block: UInt64) {
        precondition(
            1...BlockBounds.documentsMax ~= order.count,
            "a block holds 1 to 255 documents"
        )
        documents.entries.withUnsafeBufferPointer { entries in
            order.withUnsafeBufferPointer { order in
                layRuns(entries, order)
                encodeMeta(documents, entries, order: order)
                encodeBody(documents, entries, order: order)
            }
        }
        start(runsBlob)
        RunTable.appendOutline(runs, to: runsBlob)
        seal.close(runsBlob, block: block, part: .runs)
        seal.close(metaBlob, block: block, part: .meta)
        seal.close(bodyBlob, block: block, part: .body)
    }

    private func start(_ blob: ByteWriter) {
        blob.removeAll()
        blob.append(bigEndian: UInt32(0))
    }

    /// Splits the documents into runs and encodes the runs with every seqno into `table`.
    private func layRuns(
        _ entries: UnsafeBufferPointer<DocumentBuffer.Entry>,
        _ order: UnsafeBufferPointer<UInt32>
    ) {
        // Local, because every access to the property is checked for exclusiveness.
        var runs = self.runs
        self.runs = []
        runs.removeAll(keepingCapacity: true)
        defer { self.runs = runs }
        var group: UInt32 = 0
        for index in order {
            let entry = entries[Int(index)]
            if var run = runs.last, run.vBucket == entry.vBucket, group == entry.group {
                precondition(entry.seqno > run.last, "a vBucket's documents are sorted by seqno")
                if entry.seqno - run.first <= BlockBounds.spanMax {
                    run.span = entry.seqno - run.first
                    run.count += 1
                    runs[runs.count - 1] = run
                    continue
                }
            }
            group = entry.group
            runs.append(
                BlockRun(vBucket: entry.vBucket, first: entry.seqno, span: 0, count: 1)
            )
        }
        table.removeAll()
        LEB128.append(UInt64(runs.count), to: table)
        var place = 0
        for run in runs {
            LEB128.append(UInt64(run.vBucket), to: table)
            LEB128.append(run.first, to: table)
            LEB128.append(UInt64(run.count), to: table)
            for index in place + 1..<max(place + run.count, place + 1) {
                let before = entries[Int(order[index - 1])].seqno
                LEB128.append(entries[Int(order[index])].seqno - before - 1, to: table)
            }
            place += run.count
        }
    }

    private func encodeMeta(
        _ documents: DocumentBuffer,
        _ entries: UnsafeBufferPointer<DocumentBuffer.Entry>,
        order: UnsafeBufferPointer<UInt32>
    ) {
        raw.removeAll()
        raw.append(table.view)
        for index in order { raw.append(entries[Int(index)].state) }
        appendCAS(entries, order)
        for index in order where entries[Int(index)].state & DocumentBuffer.State.revision != 0 {
            LEB128.append(entries[Int(index)].revision, to: raw)
        }
        for index in order where entries[Int(index)].state & DocumentBuffer.State.flags != 0 {
            raw.append(bigEndian: entries[Int(index)].flags)
        }
        for index in order where entries[Int(index)].state & DocumentBuffer.State.expiry != 0 {
            raw.append(bigEndian: entries[Int(index)].expiry)
        }
        for index in order { LEB128.append(UInt64(entries[Int(index)].valueLength), to: raw) }
        appendKeys(documents, entries, order: order)
        start(metaBlob)
        LEB128.append(UInt64(raw.count), to: metaBlob)
        _ = LZ4.compress(raw.view, to: metaBlob)
    }

    /// Appends the smallest CAS, the byte width of the differences to it, and the differences as
    /// byte planes, most significant first.
    private func appendCAS(
        _ entries: UnsafeBufferPointer<DocumentBuffer.Entry>,
        _ order: UnsafeBufferPointer<UInt32>
    ) {
        var least = UInt64.max
        var most: UInt64 = 0
        for index in order {
            least = min(least, entries[Int(index)].cas)
            most = max(most, entries[Int(index)].cas)
        }
        let width = (64 - (most - least).leadingZeroBitCount + 7) / 8
        raw.append(bigEndian: least)
        raw.append(UInt8(width))
        let planes = raw.claim(width * order.count)
        for (place, index) in order.enumerated() {
            let difference = entries[Int(index)].cas - least
            for plane in 0..<width {
                planes.storeBytes(
                    of: UInt8(truncatingIfNeeded: difference >> UInt64(8 * (width - 1 - plane))),
                    toByteOffset: plane * order.count + place,
                    as: UInt8.self
                )
            }
        }
    }

    /// Appends the shared-prefix length of each key with the previous key, then the length of each
    /// key's remainder, then all remainders.
    private func appendKeys(
        _ documents: DocumentBuffer,
        _ entries: UnsafeBufferPointer<DocumentBuffer.Entry>,
        order: UnsafeBufferPointer<UInt32>
    ) {
        let keys = documents.keys.view
        let lengths = raw.count
        _ = raw.claim(2 * order.count)
        var before = ByteView.empty
        for (place, index) in order.enumerated() {
            let entry = entries[Int(index)]
            let key = keys.slice(entry.keyOffset, Int(entry.keyLength))
            let shared = BlockWriter.sharedLength(before, key)
            raw.replace(at: lengths + place, bigEndian: UInt8(shared))
            raw.replace(
                at: lengths + order.count + place,
                bigEndian: UInt8(key.count - shared)
            )
            raw.append(key.dropFirst(shared))
            before = key
        }
    }

    private static func sharedLength(_ one: ByteView, _ other: ByteView) -> Int {
        let most = min(one.count, other.count)
        var length = 0
        while length < most, one[length] == other[length] { length += 1 }
        return length
    }

    private func encodeBody(
        _ documents: DocumentBuffer,
        _ entries: UnsafeBufferPointer<DocumentBuffer.Entry>,
        order: UnsafeBufferPointer<UInt32>
    ) {
        start(bodyBlob)
        bodyBlob.append(table.view)
        let first = entries[Int(order[0])].valueOffset
        var next = first
        var isContiguous = true
        rawBytes = 0
        for index in order {
            let entry = entries[Int(index)]
            LEB128.append(UInt64(entry.valueLength), to: bodyBlob)
            isContiguous = isContiguous && entry.valueOffset == next
            next += Int(entry.valueLength)
            rawBytes += Int(entry.valueLength)
        }
        guard rawBytes > 0 else { return }
        let values = documents.values.view
        if isContiguous {
            // Values that are adjacent in the buffer are compressed in place.
            return compress(values.slice(first, rawBytes))
        }
        gathered.removeAll(keepingAtMost: 1 << 20)
        for index in order {
            let entry = entries[Int(index)]
            gathered.append(values.slice(entry.valueOffset, Int(entry.valueLength)))
        }
        compress(gathered.view)
    }

    private func compress(_ values: ByteView) {
        if isSmall {
            _ = LZ4.compressSmall(values, to: bodyBlob)
        } else {
            _ = LZ4.compress(values, to: bodyBlob)
        }
    }

    /// Frees memory that was allocated for a very large value.
    func trim() {
        bodyBlob.removeAll(keepingAtMost: 256 << 10)
        gathered.removeAll(keepingAtMost: 256 << 10)
    }
}
