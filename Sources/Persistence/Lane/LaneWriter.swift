internal import Bytes
internal import Vocabulary

/// The write connection of a lane, with its statements and its encoder.
///
/// - Used only under the lane's writer lock.
final class LaneWriter {
    let connection: SQLiteConnection
    let encoder: BlockWriter
    let prepares: PrepareRows
    private let insertBlock: Statement
    private let insertMeta: Statement
    private let insertBody: Statement
    private let deleteBlock: Statement
    private let deleteMeta: Statement
    private let deleteBody: Statement
    private let upsertVBucket: Statement
    private let deleteLog: Statement
    private let insertLog: Statement

    /// Reads on the write connection, for transactions that replace the blocks they read.
    private var ownReader: LaneReader?

    func reader(_ identity: LaneIdentity) throws(StorageError) -> LaneReader {
        if let reader = ownReader { return reader }
        let reader = try LaneReader(connection, identity)
        ownReader = reader
        return reader
    }

    init(_ connection: SQLiteConnection, seal: BlockSeal) throws(StorageError) {
        self.connection = connection
        encoder = BlockWriter(seal: seal)
        prepares = try PrepareRows(connection, seal: seal)
        insertBlock = try connection.prepare("INSERT INTO block VALUES(?, ?, ?, ?, ?)")
        insertMeta = try connection.prepare("INSERT INTO meta VALUES(?, ?)")
        insertBody = try connection.prepare("INSERT INTO body VALUES(?, ?)")
        deleteBlock = try connection.prepare("DELETE FROM block WHERE id = ?")
        deleteMeta = try connection.prepare("DELETE FROM meta WHERE id = ?")
        deleteBody = try connection.prepare("DELETE FROM body WHERE id = ?")
        // A purge raises purge_seqno and max_revision concurrently with the engine: an older record
        // must not lower them again. max_cas never decreases.
        upsertVBucket = try connection.prepare(
            """
            INSERT INTO vbucket(vb, state, high_seqno, snapshot_start, snapshot_end, purge_seqno,
              max_cas, max_revision, born_block, fence, intact)
            VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT(vb) DO UPDATE SET state = excluded.state,
              high_seqno = excluded.high_seqno, snapshot_start = excluded.snapshot_start,
              snapshot_end = excluded.snapshot_end,
              fence = excluded.fence, intact = excluded.intact,
              purge_seqno = max(purge_seqno, excluded.purge_seqno),
              max_cas = \(Schema.unsignedMax("max_cas", "excluded.max_cas")),
              max_revision = \(Schema.unsignedMax("max_revision", "excluded.max_revision"))
            """
        )
        deleteLog = try connection.prepare("DELETE FROM failover WHERE vb = ?")
        insertLog = try connection.prepare(
            "INSERT INTO failover(vb, position, uuid, seqno, fence) VALUES(?, ?, ?, ?, ?)"
        )
    }

    /// Encodes documents as one block and inserts it.
    func insert(
        _ documents: DocumentBuffer,
        _ order: ArraySlice<UInt32>,
        block: UInt64,
        origin: BlockOrigin
    ) throws(StorageError) {
        encoder.encode(documents, order, block: block)
        try insertBlock.run(
            block,
            origin.rawValue,
            order.count,
            encoder.rawBytes,
            encoder.runsBlob.view
        )
        try insertMeta.run(block, encoder.metaBlob.view)
        try insertBody.run(block, encoder.bodyBlob.view)
    }

    func delete(block: UInt64) throws(StorageError) {
        for statement in [deleteBlock, deleteMeta, deleteBody] {
            try statement.run(block)
        }
    }

    func write(_ record: VBucketRecord, bornBlock: UInt64) throws(StorageError) {
        try upsertVBucket.run(
            record.id.number,
            record.state.rawValue,
            record.highSeqno.value,
            record.snapshotStart.value,
            record.snapshotEnd.value,
            record.purgeSeqno.value,
            record.maxCAS.value,
            record.maxRevision,
            bornBlock,
            record.fence,
            record.isIntact ? 1 : 0
        )
    }

    func write(_ log: FailoverLog, of vBucket: VBucketID) throws(StorageError) {
        try deleteLog.run(vBucket.number)
        for (position, entry) in log.entries.enumerated() {
            try insertLog.run(
                vBucket.number,
                position,
                entry.uuid.value,
                entry.seqno.value,
                entry.fence
            )
        }
    }
}

extension FailoverLog {
    /// A hash of the log, to detect that the stored one is current; never 0.
    var mark: UInt64 {
        var mark: UInt64 = 0xcbf2_9ce4_8422_2325
        for entry in entries {
            for word in [entry.uuid.value, entry.seqno.value, entry.fence] {
                mark = (mark ^ word) &* 0x0000_0100_0000_01b3
                mark ^= mark >> 29
            }
        }
        return mark | 1
    }
}
