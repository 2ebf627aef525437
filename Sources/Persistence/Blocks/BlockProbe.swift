package import Bytes
internal import Vocabulary

/// Decodes the parts of a block from any bytes, as a lane does with the blobs of its file.
///
/// The fuzzer uses it: checksums keep damaged bytes from the decoders, but a checksum of four bytes
/// can match by chance, so the decoders must not depend on it.
package final class BlockProbe {
    private let cursor = MetadataCursor()
    private let body = BodyReader()
    private let value = ByteWriter()
    private var runs: [BlockRun] = []

    package init() {}

    /// - Returns: The number of runs in the outline; nil if the bytes are not an outline.
    @discardableResult
    package func readOutline(_ bytes: ByteView) -> Int? {
        RunTable.readOutline(bytes, into: &runs) ? runs.count : nil
    }

    /// - Returns: The total length of the keys in bytes; nil if the bytes are not metadata.
    @discardableResult
    package func readMeta(_ bytes: ByteView) -> Int? {
        guard cursor.open(bytes) else { return nil }
        var sum = 0
        for run in cursor.runs.indices {
            cursor.select(run: run)
            while cursor.next() {
                precondition(cursor.meta.seqno == cursor.seqno, "meta has the cursor's seqno")
                sum += cursor.key.bytes.count
            }
        }
        return sum
    }

    /// - Returns: A sum of value lengths in bytes; nil if the bytes are not a body.
    @discardableResult
    package func readBody(_ bytes: ByteView) -> Int? {
        guard body.open(bytes), body.documents > 0 else { return nil }
        var sum = 0
        for place in [0, body.documents - 1] {
            value.removeAll()
            if body.read(place, into: value) { sum += value.count }
        }
        guard body.readAll() else { return nil }
        for place in 0..<body.documents { sum += body.value(place).bytes.count }
        return sum
    }
}
