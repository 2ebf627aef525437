package import Bytes
internal import Vocabulary

/// Reads the parts of a block from any bytes, as a lane does with what it finds in its file.
///
/// For the fuzzer: seals keep damaged bytes from the readers, but a seal is four bytes, and the
/// readers must not depend on it.
package final class BlockProbe {
    private let cursor = MetadataCursor()
    private let body = BodyReader()
    private let value = ByteWriter()
    private var runs: [BlockRun] = []

    package init() {}

    /// - Returns: How many runs an outline lists; nil where it is none.
    @discardableResult
    package func readOutline(_ bytes: ByteView) -> Int? {
        RunTable.readOutline(bytes, into: &runs) ? runs.count : nil
    }

    /// - Returns: How many bytes the keys have; nil where this is no metadata.
    @discardableResult
    package func readMeta(_ bytes: ByteView) -> Int? {
        guard cursor.open(bytes) else { return nil }
        var sum = 0
        for run in cursor.runs.indices {
            cursor.select(run: run)
            while cursor.next() {
                precondition(cursor.meta.seqno == cursor.seqno, "one document, one seqno")
                sum += cursor.key.bytes.count
            }
        }
        return sum
    }

    /// - Returns: How many bytes the values have; nil where these are none.
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
