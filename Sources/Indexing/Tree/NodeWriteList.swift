package import Bytes
package import Vocabulary

/// One node to store.
package struct NodeWrite {
    package let id: IndexNodeID
    package let version: UInt32
    /// 0 for a leaf.
    package let level: Int
    /// Valid until the list changes.
    package let body: ByteView
}

/// The nodes that an edit or a bulk load wrote, children before the nodes above them.
package final class NodeWriteList {
    private struct Record {
        let id: IndexNodeID
        let version: UInt32
        let level: Int
        let start: Int
        var count = 0
        var isReplaced = false
    }

    let bytes = ByteWriter(capacity: 4 << 10)
    private var records: [Record] = []

    package init() {}

    /// Bytes of all bodies.
    package var byteCount: Int { bytes.count }

    package var isEmpty: Bool { records.isEmpty }

    package func removeAll() {
        bytes.removeAll()
        records.removeAll(keepingCapacity: true)
    }

    /// Calls `body` for each node, children first.
    package func visit<Failure: Error>(
        _ body: (NodeWrite) throws(Failure) -> Void
    ) throws(Failure) {
        for record in records where !record.isReplaced { try body(write(record)) }
    }

    private func write(_ record: Record) -> NodeWrite {
        NodeWrite(
            id: record.id,
            version: record.version,
            level: record.level,
            body: bytes.view.slice(record.start, record.count)
        )
    }

    // MARK: For edits

    func begin(_ id: IndexNodeID, version: UInt32, level: Int) {
        records.append(Record(id: id, version: version, level: level, start: bytes.count))
    }

    func end() {
        records[records.count - 1].count = bytes.count - records[records.count - 1].start
    }

    /// The index of the newest node, for `write(at:)` and `replace`.
    var lastIndex: Int { records.count - 1 }

    /// The index of the newest version of a node; negative if it was not written.
    func index(of id: IndexNodeID) -> Int {
        records.lastIndex { $0.id == id && !$0.isReplaced } ?? -1
    }

    func write(at index: Int) -> NodeWrite { write(records[index]) }

    /// Drops a node that was written again, or freed.
    func drop(_ index: Int) { records[index].isReplaced = true }
}
