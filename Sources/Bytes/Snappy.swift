internal import CSnappy

/// Snappy compression and decompression, with checked lengths, for values on the wire.
package enum Snappy {
    /// The length of the decompressed form, as `source` states it.
    ///
    /// - Returns: Nil if `source` does not begin with a length.
    package static func rawCount(of source: ByteView) -> Int? {
        var count = 0
        let status = snappy_uncompressed_length(
            source.start.assumingMemoryBound(to: CChar.self),
            source.count,
            &count
        )
        return status == SNAPPY_OK && count >= 0 ? count : nil
    }

    /// Appends exactly `rawCount` decompressed bytes; appends nothing and returns false if `source`
    /// is damaged or has another length.
    package static func decompress(
        _ source: ByteView,
        rawCount: Int,
        to writer: ByteWriter
    ) -> Bool {
        // The library checks the room against the length that `source` states.
        let before = writer.count
        var length = rawCount
        let status = snappy_uncompress(
            source.start.assumingMemoryBound(to: CChar.self),
            source.count,
            writer.claim(rawCount).assumingMemoryBound(to: CChar.self),
            &length
        )
        guard status == SNAPPY_OK, length == rawCount else {
            writer.truncate(to: before)
            return false
        }
        return true
    }

    /// Appends the compressed form of `source` and returns its length.
    package static func compress(_ source: ByteView, to writer: ByteWriter) -> Int {
        let before = writer.count
        var length = snappy_max_compressed_length(source.count)
        let status = snappy_compress(
            source.start.assumingMemoryBound(to: CChar.self),
            source.count,
            writer.claim(length).assumingMemoryBound(to: CChar.self),
            &length
        )
        precondition(status == SNAPPY_OK, "snappy succeeds if there is enough room")
        writer.truncate(to: before + length)
        return length
    }
}
