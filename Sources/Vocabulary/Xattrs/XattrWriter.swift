package import Bytes

/// Appends extended attributes to a writer, in the form that `XattrBlob` reads.
///
/// The caller appends the body after `end`. If `end` returns true, the value's datatype has
/// `.xattr`.
package struct XattrWriter {
    private let writer: ByteWriter
    private let start: Int

    private init(_ writer: ByteWriter) {
        self.writer = writer
        start = writer.count
        writer.append(bigEndian: UInt32(0))
    }

    /// Reserves the place of the total length at the writer's end.
    package static func begin(_ writer: ByteWriter) -> XattrWriter { XattrWriter(writer) }

    /// Appends one pair.
    ///
    /// - Parameters:
    ///   - key: Not among the keys appended before, and not in the writer's memory.
    ///   - value: Not in the writer's memory either.
    package func append(key: ByteView, value: ByteView) {
        precondition(
            !key.isEmpty && key.count <= Limits.xattrKeyBytesMax,
            "an attribute's key has 1 to 15 bytes"
        )
        writer.append(bigEndian: UInt32(key.count + value.count + 2))
        writer.append(key)
        writer.append(0)
        writer.append(value)
        writer.append(0)
    }

    /// Writes the total length.
    ///
    /// - Returns: Whether there is a pair; if there is none, the total length was removed.
    package func end() -> Bool {
        let total = writer.count - start - 4
        guard total > 0 else {
            writer.truncate(to: start)
            return false
        }
        writer.replace(at: start, bigEndian: UInt32(total))
        return true
    }

    /// Appends the system attributes of `blob`, with their total length.
    ///
    /// - Returns: Whether there are any; otherwise nothing was appended.
    package static func appendSystemPairs(of blob: XattrBlob, to writer: ByteWriter) -> Bool {
        let attributes = begin(writer)
        for (key, value) in blob where XattrBlob.isSystemKey(key) {
            attributes.append(key: key, value: value)
        }
        return attributes.end()
    }

    /// The bytes of a pair, with its length in front.
    static func pairBytes(_ keyCount: Int, _ valueCount: Int) -> Int { keyCount + valueCount + 6 }
}
