internal import Bytes

/// Reads the values of one block: all of them, or one, decompressed no further than its end.
///
/// - Safe on any input: lengths are checked against LZ4's maximum expansion of the input before
///   memory is allocated.
final class BodyReader {
    private(set) var runs: [BlockRun] = []
    private(set) var documents = 0
    private var lengths: [UInt32] = []
    private let seqnos: UnsafeMutablePointer<UInt64>
    private let raw = ByteWriter(capacity: 16)
    private var rawBytes = 0
    private var compressed = ByteView.empty
    private var offsets: [Int] = []

    init() {
        seqnos = .allocate(capacity: BlockBounds.documentsMax)
    }

    deinit { seqnos.deallocate() }

    func seqno(_ index: Int) -> UInt64 { seqnos[index] }

    /// Reads the table of a body blob's content, which stays borrowed; false if it is invalid.
    func open(_ content: ByteView) -> Bool {
        var reader = ByteReader(content)
        lengths.removeAll(keepingCapacity: true)
        rawBytes = 0
        raw.removeAll(keepingAtMost: 1 << 20)
        guard let count = RunTable.readSeqnos(&reader, into: &runs, seqnos) else { return false }
        documents = count
        for _ in 0..<count {
            guard let length = reader.leb128(), length <= UInt64(BlockBounds.valueBytesMax) else {
                return false
            }
            lengths.append(UInt32(length))
            rawBytes += Int(length)
        }
        compressed = reader.rest
        if rawBytes == 0 { return compressed.isEmpty }
        return rawBytes <= BlockBounds.valueBytesMax
            && rawBytes <= compressed.count * BlockBounds.expansionMax
    }

    /// The index of a document in the block; nil if the block does not contain it.
    func index(of seqno: UInt64, in vBucket: UInt16) -> Int? {
        RunTable.index(of: seqno, in: vBucket, runs, seqnos)
    }

    /// The indexes of the documents after `seqno` in the first run of `vBucket` that has any; nil if
    /// no run has.
    func indexes(of vBucket: UInt16, after seqno: UInt64) -> Range<Int>? {
        RunTable.indexes(of: vBucket, after: seqno, runs, seqnos)
    }

    /// Appends the value at `index`, decompressing no further than its end; false if the bytes are
    /// invalid.
    func read(_ index: Int, into writer: ByteWriter) -> Bool {
        let offset = lengths[..<index].reduce(0) { $0 + Int($1) }
        let length = Int(lengths[index])
        guard length > 0 else { return true }
        raw.removeAll()
        guard
            LZ4.decompress(
                compressed,
                prefixCount: offset + length,
                rawCount: rawBytes,
                to: raw
            )
        else { return false }
        writer.append(raw.view.slice(offset, length))
        return true
    }

    /// Decompresses all values, for `value(_:)`; false if the bytes are invalid.
    func readAll() -> Bool {
        raw.removeAll()
        offsets.removeAll(keepingCapacity: true)
        var offset = 0
        for length in lengths {
            offsets.append(offset)
            offset += Int(length)
        }
        return rawBytes == 0 || LZ4.decompress(compressed, rawCount: rawBytes, to: raw)
    }

    /// The value at `index`, after `readAll`.
    func value(_ index: Int) -> ByteView { raw.view.slice(offsets[index], Int(lengths[index])) }
}
