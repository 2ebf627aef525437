internal import Bytes

/// Size limits of blocks, the same for all buckets; tests set smaller ones.
package struct BlockLimits: Hashable, Sendable {
    /// Approximate bytes of uncompressed values per block; a larger value gets a block of its own.
    package var rawBytes = 32 << 10
    /// Documents per block, at most 255: the count is stored in one byte.
    package var documents = 255
    /// A vBucket with at least this many documents in a commit gets blocks of its own.
    package var pureDocumentsMin = 8
    /// A vBucket with at least this many bytes of values in a commit gets blocks of its own.
    package var pureBytesMin = 16 << 10

    package init() {}
}

/// Bounds of every valid block.
///
/// Decoders check them first, so that invalid input stays cheap.
enum BlockBounds {
    static let documentsMax = 255
    /// 255 documents with keys of 255 bytes and the widest columns.
    static let metaBytesMax = 128 << 10
    /// The largest value, with room for the other values of its block.
    static let valueBytesMax = 64 << 20
    static let seqnoMax: UInt64 = 1 << 48 - 1
    /// The directory stores a run's span in 16 bits.
    static let spanMax: UInt64 = 0xffff
    /// LZ4 expands one byte to at most 255.
    static let expansionMax = 255
}

/// The parts of a block; each is a blob in its own table.
enum BlockPart: UInt8 {
    case runs = 1
    case meta = 2
    case body = 3
}

/// The operation that wrote a block.
enum BlockOrigin: Int64 {
    /// A commit. Merging rewrites such a block if it is mixed.
    case commit = 0
    /// Compaction or merging. Merging does not rewrite such a block.
    case compaction = 1
}

/// The checksum at the start of every blob, over the file's identity, block id, part and bytes.
///
/// An intact blob in the wrong row, part or file therefore fails the check, as one with a flipped
/// bit does.
struct BlockSeal {
    static let size = 4
    private let seed: UInt32

    init(identity: String) {
        seed = identity.withView { CRC32.checksum($0) }
    }

    private func checksum(_ bytes: ByteView, block: UInt64, part: BlockPart) -> UInt32 {
        let place = block << 8 | UInt64(part.rawValue)
        let start = withUnsafeBytes(of: place.bigEndian) { bytes in
            CRC32.checksum(ByteView(bytes), seed: seed)
        }
        return CRC32.checksum(bytes, seed: start)
    }

    /// The checksum of a row that is not a block: of its numbers, then of its bytes.
    func checksum(_ numbers: [UInt64], _ parts: [ByteView]) -> UInt32 {
        let start = numbers.map(\.bigEndian).withUnsafeBytes { bytes in
            CRC32.checksum(ByteView(bytes), seed: seed)
        }
        return parts.reduce(start) { CRC32.checksum($1, seed: $0) }
    }

    /// Writes the checksum into a blob's first four bytes, which are reserved for it.
    func close(_ blob: ByteWriter, block: UInt64, part: BlockPart) {
        let content = blob.view.dropFirst(BlockSeal.size)
        blob.replace(at: 0, bigEndian: checksum(content, block: block, part: part))
    }

    /// The bytes after the checksum; nil if the checksum does not match.
    func open(_ blob: ByteView, block: UInt64, part: BlockPart) -> ByteView? {
        guard blob.count > BlockSeal.size else { return nil }
        let content = blob.dropFirst(BlockSeal.size)
        let expected = blob.bigEndian(at: 0, as: UInt32.self)
        return checksum(content, block: block, part: part) == expected ? content : nil
    }
}
