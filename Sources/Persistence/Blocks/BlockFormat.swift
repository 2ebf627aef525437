internal import Bytes

/// How large blocks may become: sizes that simulations shrink and fullEviction buckets halve.
package struct BlockLimits: Hashable, Sendable {
    /// Bytes of values that a block holds, about; a larger value is a block alone.
    package var rawBytes = 32 << 10
    /// Documents of a block: their count fits a byte.
    package var documents = 255
    /// A vBucket with as many documents in a commit gets blocks of its own.
    package var pureDocumentsMin = 8
    /// So does one with as many bytes.
    package var pureBytesMin = 16 << 10

    package init() {}
}

/// Bounds that no valid block breaks, so that decoding nonsense stays cheap.
enum BlockBounds {
    static let documentsMax = 255
    /// Keys of 255 bytes and the widest columns, 255 times.
    static let metaBytesMax = 128 << 10
    /// The largest value, and room for what a block may hold beside it.
    static let valueBytesMax = 64 << 20
    static let seqnoMax: UInt64 = 1 << 48 - 1
    /// The directory keeps a run's width in 16 bits.
    static let spanMax: UInt64 = 0xffff
    /// LZ4 cannot make more than 255 bytes of one.
    static let expansionMax = 255
}

/// The parts of a block, each a blob in a table of its own.
enum BlockPart: UInt8 {
    case runs = 1
    case meta = 2
    case body = 3
}

/// Where a block came from.
enum BlockOrigin: Int64 {
    /// A commit wrote it; if mixed, merging will dissolve it.
    case commit = 0
    /// Compaction or merging wrote it; merging leaves it alone.
    case compaction = 1
}

/// The checksum that begins every blob: of the file's identity, the block, the part, the bytes.
///
/// A blob that is whole but in the wrong row, part or file fails as one with a flipped bit does.
struct BlockSeal {
    static let size = 4
    private let seed: UInt32

    init(identity: String) {
        var text = identity
        seed = text.withUTF8 { CRC32.checksum(ByteView(UnsafeRawBufferPointer($0))) }
    }

    private func checksum(_ bytes: ByteView, block: UInt64, part: BlockPart) -> UInt32 {
        let place = block << 8 | UInt64(part.rawValue)
        let start = withUnsafeBytes(of: place.bigEndian) { bytes in
            CRC32.checksum(ByteView(bytes), seed: seed)
        }
        return CRC32.checksum(bytes, seed: start)
    }

    /// Of a row that is no block: its numbers, then its bytes.
    func checksum(_ numbers: [UInt64], _ parts: [ByteView]) -> UInt32 {
        let start = numbers.map(\.bigEndian).withUnsafeBytes { bytes in
            CRC32.checksum(ByteView(bytes), seed: seed)
        }
        return parts.reduce(start) { CRC32.checksum($1, seed: $0) }
    }

    /// Fills in the checksum of a blob whose first four bytes were kept free for it.
    func close(_ blob: ByteWriter, block: UInt64, part: BlockPart) {
        let content = blob.view.dropFirst(BlockSeal.size)
        blob.replace(at: 0, bigEndian: checksum(content, block: block, part: part))
    }

    /// The bytes behind the checksum, or nil where it does not agree with them.
    func open(_ blob: ByteView, block: UInt64, part: BlockPart) -> ByteView? {
        guard blob.count > BlockSeal.size else { return nil }
        let content = blob.dropFirst(BlockSeal.size)
        let expected = blob.bigEndian(at: 0, as: UInt32.self)
        return checksum(content, block: block, part: part) == expected ? content : nil
    }
}
