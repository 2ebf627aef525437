internal import CLZ4

/// LZ4 block compression, with the lengths checked on both ways.
package enum LZ4 {
    /// The most bytes that compressing `count` bytes can take.
    package static func bound(_ count: Int) -> Int {
        Int(LZ4_compressBound(CInt(count)))
    }

    /// Appends the compressed form of `source` and returns its length.
    ///
    /// - Parameters:
    ///   - source: At most 2 GiB less a little; a block is some 32 KiB.
    ///   - writer: Where the compressed bytes go.
    ///   - acceleration: 1 compresses best; every step above is some 3 % faster and larger.
    /// - Returns: How many bytes were appended.
    package static func compress(
        _ source: ByteView,
        to writer: ByteWriter,
        acceleration: Int = 1
    ) -> Int {
        append(compressed: source, to: writer) { from, target, count, capacity in
            LZ4_compress_fast(from, target, count, capacity, CInt(acceleration))
        }
    }

    /// The same in a sixth less room, for five times the time; it is read as fast as the other.
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
        precondition(length > 0, "LZ4 with enough room always succeeds")
        writer.truncate(to: before + Int(length))
        return Int(length)
    }

    /// Of 3 to 9: beyond it a percent costs half as much time again.
    private static let smallLevel: CInt = 4

    /// Appends exactly `rawCount` decompressed bytes; false (and nothing appended) on nonsense.
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

    /// Appends the first `prefixCount` of `rawCount` decompressed bytes; false on nonsense.
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
