internal import Bytes
package import Vocabulary

extension LaneStore {
    package func drop(_ vBucket: VBucketID) throws(StorageError) { try drop([vBucket]) }

    /// Forgets this node's copies of vBuckets: records, logs, documents, prepares.
    ///
    /// One small transaction, whatever the size: blocks older than this moment no longer count for
    /// the vBuckets, and compaction clears them away. New copies may be committed at once, from
    /// seqno 1 if need be.
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
            let forget = try lane.connection.prepare("DELETE FROM failover WHERE vb = ?")
            let withdraw = try lane.connection.prepare("DELETE FROM prepares WHERE vb = ?")
            let cool = try lane.connection.prepare("DELETE FROM heat WHERE vb = ?")
            try lane.connection.transaction { () throws(StorageError) in
                for vBucket in vBuckets {
                    update.bind(1, bornBlock)
                    update.bind(2, vBucket.number)
                    try update.run()
                    for statement in [forget, cool, withdraw] {
                        statement.bind(1, vBucket.number)
                        try statement.run()
                    }
                }
            }
            directory.withLock { directory in
                for vBucket in vBuckets { directory.drop(vBucket.number, bornBlock: bornBlock) }
            }
        }
    }

    /// Gives up a block that nobody can read, after its damage was reported: what it held is
    /// missing from now on, and may be committed again under new seqnos.
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

    /// Throws where a block of the file may have held something of the vBucket and nobody knows what:
    /// whatever else is read of it may be older than that.
    package func checkWhole(_ vBucket: VBucketID) throws(StorageError) {
        let born = directory.withLock { $0[vBucket.number].bornBlock }
        let first = lost.withLock { lost in lost.filter { $0 >= born }.min() }
        guard let block = first else { return }
        throw StorageError(
            .damaged,
            "\(path) has block \(block), of which neither outline nor metadata can be read; it may "
                + "hold documents of \(vBucket)"
        )
    }
}
