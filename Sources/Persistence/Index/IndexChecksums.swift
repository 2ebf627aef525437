internal import Bytes
internal import Vocabulary

/// The checksums of an index file's rows: CRC-32 of the table's name and all columns but the
/// checksum, in the order of the table.
extension IndexHead {
    var checksum: UInt32 {
        RowChecksum("head").with(commit.value).with(UInt64(state.rawValue))
            .with(main).with(back).with(nextNode.value).with(nextValue.value).over()
    }
}

extension RowChecksum {
    fileprivate func with(_ root: IndexRoot) -> RowChecksum {
        with(root.node.value).with(UInt64(root.height)).with(UInt64(root.version)).with(root.rows)
    }
}

extension IndexVBucket {
    var checksum: UInt32 {
        RowChecksum("vb").with(UInt64(id.number)).with(UInt64(home.rawValue)).with(root.value)
            .with(rows).with(uuid.value).with(seqno.value).with(snapshotStart.value)
            .with(snapshotEnd.value).with(logFloor.value).over()
    }
}

extension IndexSlot {
    var checksum: UInt32 {
        RowChecksum("slot").with(UInt64(id.value)).with(text: signature).with(UInt64(kind))
            .with(text: source).over()
    }
}

extension IndexFault {
    func checksum(number: UInt64) -> UInt32 {
        RowChecksum("err").with(number).with(text: view).with(UInt64(document.count))
            .with(UInt64(line)).with(text: text).over(document)
    }
}

/// The checksums of rows with a body.
enum IndexChecksum {
    static func value(_ id: IndexValueID, _ body: ByteView) -> UInt32 {
        RowChecksum("big").with(id.value).over(body)
    }

    static func reduction(_ slot: IndexSlotID, _ node: IndexNodeID, body: ByteView) -> UInt32 {
        RowChecksum("red").with(UInt64(slot.value)).with(node.value).over(body)
    }

    static func log(_ commit: UInt64, _ body: ByteView) -> UInt32 {
        RowChecksum("log").with(commit).over(body)
    }

    static func chunk(_ run: IndexRunID, _ number: UInt32, body: ByteView) -> UInt32 {
        RowChecksum("run").with(UInt64(run.tree.rawValue)).with(UInt64(run.number))
            .with(UInt64(number)).over(body)
    }
}
