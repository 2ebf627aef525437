package import Bytes
package import Vocabulary

/// The stored partial results of an inner node's children for one reduction.
///
/// A child's result is valid only while the child has the version that is stored with it, so a
/// change below a child, or a node that changed its parent, needs no bookkeeping: the result no
/// longer matches, and is computed again.
///
///     body   children u16, then for each: number, version, length, bytes (LEB128); CRC-32C u32
package struct PartialTable {
    package struct Entry {
        package let child: IndexNodeID
        package let version: UInt32
        let start: Int
        let count: Int
    }

    package private(set) var entries: [Entry] = []
    private let bytes: ByteWriter

    /// Bytes of the table in memory, without its list of entries.
    package var byteCount: Int { bytes.count }

    /// A table without results.
    package init() { bytes = ByteWriter(capacity: 16) }

    /// Reads a stored table; nil if the bytes are not one, which is as if there were none.
    package init?(body: ByteView) {
        guard body.count >= 6,
            CRC32C.checksum(body.slice(0, body.count - 4))
                == body.littleEndian(at: body.count - 4, as: UInt32.self)
        else { return nil }
        bytes = ByteWriter(capacity: body.count)
        bytes.append(body.slice(0, body.count - 4))
        var reader = ByteReader(bytes.view)
        guard let count = reader.littleEndian(UInt16.self) else { return nil }
        entries.reserveCapacity(Int(count))
        for _ in 0..<count {
            guard let child = reader.leb128(), let version = reader.leb128(),
                version <= UInt64(UInt32.max), let length = reader.leb128(),
                length <= UInt64(reader.rest.count)
            else { return nil }
            let start = bytes.count - reader.rest.count
            _ = reader.bytes(Int(length))
            entries.append(
                Entry(
                    child: IndexNodeID(child),
                    version: UInt32(version),
                    start: start,
                    count: Int(length)
                )
            )
        }
        if !reader.isAtEnd { return nil }
    }

    /// The result of a child; nil if there is none for this version.
    ///
    /// `hint` is the child's place in its node: most results are found there.
    package func result(of child: IndexNodeID, version: UInt32, hint: Int) -> ByteView? {
        var place = hint
        if place >= entries.count || entries[place].child != child {
            place = entries.firstIndex { $0.child == child } ?? -1
        }
        guard place >= 0, entries[place].version == version else { return nil }
        return bytes.view.slice(entries[place].start, entries[place].count)
    }
}

/// Writes a table of partial results.
package final class PartialTableWriter {
    private let output = ByteWriter(capacity: 8 << 10)
    private var count: UInt16 = 0

    /// Bytes that were appended.
    var byteCount: Int { output.count }

    package init() {
        removeAll()
    }

    package func removeAll() {
        output.removeAll()
        output.append(littleEndian: UInt16(0))
        count = 0
    }

    package func append(_ child: IndexNodeID, version: UInt32, _ result: ByteView) {
        LEB128.append(child.value, to: output)
        LEB128.append(UInt64(version), to: output)
        LEB128.append(UInt64(result.count), to: output)
        output.append(result)
        count += 1
    }

    /// The bytes to store; valid until the writer changes.
    package func finish() -> ByteView {
        output.replace(at: 0, bigEndian: count.byteSwapped)
        output.append(littleEndian: CRC32C.checksum(output.view))
        return output.view
    }
}

/// Reads the stored partial results of one reduction, from the same snapshot as the nodes.
package protocol PartialSource: AnyObject {
    /// The results of an inner node's children; nil if none are stored, or they are invalid.
    ///
    /// - Throws: `IndexError.unreadable` if reading failed.
    func partials(of node: IndexNodeID) throws(IndexError) -> PartialTable?
}
