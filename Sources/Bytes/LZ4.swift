internal import CLZ4

/// LZ4 block compression and decompression, with checked lengths.
package enum LZ4 {
    /// The maximal compressed size of `count` bytes.
    package static func bound(_ count: Int) -> Int {
        Int(LZ4_compressBound(CInt(count)))
    }

    /// Appends the compressed form of `source` and returns its length.
    ///
    /// - Parameters:
    ///   - source: Slightly less than 2 GiB at most; a block has about 32 KiB.
    ///   - writer: Receives the compressed bytes.
    ///   - acceleration: 1 compresses best; each step is about 3 % faster and 3 % larger.
    /// - Returns: The number of appended bytes.
    package static func compress(
        _ source: ByteView,
        to writer: ByteWriter,
        acceleration: Int = 1
    ) -> Int {
        append(compressed: source, to: writer) { from, target, count, capacity in
            LZ4_compress_fast(from, target, count, capacity, CInt(acceleration))
        }
    }

    /// As `compress`, but a sixth smaller and five times slower; decompression is equally fast.
    package static func compressSmall(_ source: ByteView, to writer: ByteWriter) -> Int {
        append(compressed: source, to: writer) { from, target, count, capacity in
            LZ4_compress_HC(from, target, count, capacity, smallLevel)
        }
    }

    private static func append(
        compressed source: ByteView,
        to writer: ByteWriter,
        by compress: (UnsafePointer<CChar>, UnsafeMutablePointer<CChar>, CInt, CInt) -> CInt
    ) -> Int {
        let capacity = bound(source.count)
        let before = writer.count
        let length = compress(
            source.start.assumingMemoryBound(to: CChar.self),
            writer.claim(capacity).assumingMemoryBound(to: CChar.self),
            CInt(source.count),
            CInt(capacity)
        )
        precondition(length > 0, "LZ4 succeeds if there is enough room")
        writer.truncate(to: before + Int(length))
        return Int(length)
    }

    /// The level of LZ4 HC, 3 to 9: each level above this one saves 1 % of size for 50 % more time.
    private static let smallLevel: CInt = 4

    /// Appends exactly `rawCount` decompressed bytes; appends nothing and returns false if `source`
    /// is damaged or has another length.
    package static func decompress(
        _ source: ByteView,
        rawCount: Int,
        to writer: ByteWriter
    ) -> Bool {
        let before = writer.count
        let target = writer.claim(rawCount)
        let length = LZ4_decompress_safe(
            source.start.assumingMemoryBound(to: CChar.self),
            target.assumingMemoryBound(to: CChar.self),
            CInt(source.count),
            CInt(rawCount)
        )
        guard Int(length) == rawCount else {
            writer.truncate(to: before)
            return false
        }
        return true
    }

    /// Appends the first `prefixCount` of `rawCount` decompressed bytes; appends nothing and
    /// returns false if `source` is damaged or shorter.
    package static func decompress(
        _ source: ByteView,
        prefixCount: Int,
        rawCount: Int,
        to writer: ByteWriter
    ) -> Bool {
        let before = writer.count
        let target = writer.claim(rawCount)
        let length = LZ4_decompress_safe_partial(
            source.start.assumingMemoryBound(to: CChar.self),
            target.assumingMemoryBound(to: CChar.self),
            CInt(source.count),
            CInt(prefixCount),
            CInt(rawCount)
        )
        guard Int(length) >= prefixCount else {
            writer.truncate(to: before)
            return false
        }
        writer.truncate(to: before + prefixCount)
        return true
    }
}
