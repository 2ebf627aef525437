internal import Bytes
package import Vocabulary

extension LaneStore {
    /// Removes this node's copy of one vBucket.
    ///
    /// - Throws: `StorageError` if the file cannot be written.
    package func drop(_ vBucket: VBucketID) throws(StorageError) { try drop([vBucket]) }

    /// Removes this node's copies of vBuckets: records, failover logs, documents and prepares.
    ///
    /// This is one small transaction, whatever the size: the vBuckets' documents in existing blocks
    /// become dead, and compaction removes them. New copies may be committed at once, from seqno 1
    /// on.
    ///
    /// - Throws: `StorageError` if the file cannot be written.
    package func drop(_ vBuckets: [VBucketID]) throws(StorageError) {
        for vBucket in vBuckets {
            precondition(owns(vBucket), "\(vBucket) is not in lane \(number)")
        }
        guard exists, !vBuckets.isEmpty else { return }
        try write { (writer, lane) throws(StorageError) in
            let bornBlock = writer.nextBlock
            let update = try lane.connection.prepare(
                """
                UPDATE vbucket SET state = 0, high_seqno = 0, snapshot_start = 0, \
                snapshot_end = 0, purge_seqno = 0, max_revision = 0, born_block = ? WHERE vb = ?
                """
            )
            let deleteLog = try lane.connection.prepare("DELETE FROM failover WHERE vb = ?")
            let deletePrepares = try lane.connection.prepare("DELETE FROM prepares WHERE vb = ?")
            let deleteHeat = try lane.connection.prepare("DELETE FROM heat WHERE vb = ?")
            try lane.connection.transaction { () throws(StorageError) in
                for vBucket in vBuckets {
                    try update.run(bornBlock, vBucket.number)
                    for statement in [deleteLog, deleteHeat, deletePrepares] {
                        try statement.run(vBucket.number)
                    }
                }
            }
            directory.withLock { directory in
                for vBucket in vBuckets { directory.drop(vBucket.number, bornBlock: bornBlock) }
            }
        }
    }

    /// Deletes an unreadable block after its damage was reported.
    ///
    /// The block's documents are missing from now on; the caller may commit them again under new seqnos.
    ///
    /// - Throws: `StorageError` if the file cannot be written.
    package func discard(block: UInt64) throws(StorageError) {
        try write { (_, lane) throws(StorageError) in
            try lane.connection.transaction { () throws(StorageError) in
                try lane.delete(block: block)
            }
            directory.withLock { directory in
                let ordinal = directory.blocks.firstIndex { $0.id == block }
                if let ordinal { directory.remove([UInt32(ordinal)]) }
            }
            unreadable.withLock { _ = $0.remove(block) }
            lost.withLock { _ = $0.remove(block) }
        }
    }

    /// Checks that no unidentifiable block may hold documents of the vBucket.
    ///
    /// Such a block may hold newer versions than those that can be read.
    ///
    /// - Throws: `StorageError` with `.damaged` if there is such a block.
    package func checkNoUnidentifiedBlocks(_ vBucket: VBucketID) throws(StorageError) {
        let born = directory.withLock { $0[vBucket.number].bornBlock }
        let first = lost.withLock { lost in lost.filter { $0 >= born }.min() }
        guard let block = first else { return }
        throw StorageError(
            .damaged,
            "block \(block) of \(path) is damaged: neither its outline nor its metadata is readable. "
                + "It may hold documents of \(vBucket)."
        )
    }
}
