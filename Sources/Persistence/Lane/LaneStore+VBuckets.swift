internal import Bytes
package import Vocabulary

extension LaneStore {
    /// Forgets this node's copy of a vBucket: its record, its log, its documents.
    ///
    /// One small transaction, whatever the size: blocks older than this moment no longer count for
    /// the vBucket, and compaction clears them away. A new copy may be committed at once, from
    /// seqno 1 if need be.
    package func drop(_ vBucket: VBucketID) throws(StorageError) {
        precondition(owns(vBucket), "\(vBucket) is not in lane \(number)")
        guard exists else { return }
        try write { (writer, lane) throws(StorageError) in
            let bornBlock = writer.nextBlock
            let update = try lane.connection.prepare(
                """
                UPDATE vbucket SET state = 0, high_seqno = 0, snapshot_start = 0, \
                snapshot_end = 0, purge_seqno = 0, max_revision = 0, born_block = ? WHERE vb = ?
                """
            )
            let forget = try lane.connection.prepare("DELETE FROM failover WHERE vb = ?")
            let cool = try lane.connection.prepare("DELETE FROM heat WHERE vb = ?")
            try lane.connection.transaction { () throws(StorageError) in
                update.bind(1, bornBlock)
                update.bind(2, vBucket.number)
                try update.run()
                for statement in [forget, cool] {
                    statement.bind(1, vBucket.number)
                    try statement.run()
                }
            }
            directory.withLock { $0.drop(vBucket.number, bornBlock: bornBlock) }
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
        }
    }
}
