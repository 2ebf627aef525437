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
        insertBlock.bind(1, block)
        insertBlock.bind(2, origin.rawValue)
        insertBlock.bind(3, order.count)
        insertBlock.bind(4, encoder.rawBytes)
        insertBlock.bind(5, borrowing: encoder.runsBlob.view)
        try insertBlock.run()
        insertMeta.bind(1, block)
        insertMeta.bind(2, borrowing: encoder.metaBlob.view)
        try insertMeta.run()
        insertBody.bind(1, block)
        insertBody.bind(2, borrowing: encoder.bodyBlob.view)
        try insertBody.run()
    }

    func delete(block: UInt64) throws(StorageError) {
        for statement in [deleteBlock, deleteMeta, deleteBody] {
            statement.bind(1, block)
            try statement.run()
        }
    }

    func write(_ record: VBucketRecord, bornBlock: UInt64) throws(StorageError) {
        upsertVBucket.bind(1, record.id.number)
        upsertVBucket.bind(2, record.state.rawValue)
        upsertVBucket.bind(3, record.highSeqno.value)
        upsertVBucket.bind(4, record.snapshotStart.value)
        upsertVBucket.bind(5, record.snapshotEnd.value)
        upsertVBucket.bind(6, record.purgeSeqno.value)
        upsertVBucket.bind(7, record.maxCAS.value)
        upsertVBucket.bind(8, record.maxRevision)
        upsertVBucket.bind(9, bornBlock)
        upsertVBucket.bind(10, record.fence)
        upsertVBucket.bind(11, record.isIntact ? 1 : 0)
        try upsertVBucket.run()
    }

    func write(_ log: FailoverLog, of vBucket: VBucketID) throws(StorageError) {
        deleteLog.bind(1, vBucket.number)
        try deleteLog.run()
        for (position, entry) in log.entries.enumerated() {
            insertLog.bind(1, vBucket.number)
            insertLog.bind(2, position)
            insertLog.bind(3, entry.uuid.value)
            insertLog.bind(4, entry.seqno.value)
            insertLog.bind(5, entry.fence)
            try insertLog.run()
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
