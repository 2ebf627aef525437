internal import Vocabulary

/// The contents of a lane file that are read when it is opened.
struct LaneContents {
    var directory: LaneDirectory
    /// The id of the next block: above every stored block, and at least every `born_block`.
    var nextBlock: UInt64 = 1
    /// Blocks whose outline and metadata are both damaged: their documents are unknown.
    var lost: [UInt64] = []

    init(_ connection: SQLiteConnection, _ identity: LaneIdentity) throws(StorageError) {
        directory = LaneDirectory(lanes: identity.lanes, vBuckets: identity.vBuckets)
        try readVBuckets(connection, identity)
        try readBlocks(connection, identity)
        if let (place, seqno) = directory.overlap {
            throw StorageError(
                .damaged,
                "\(connection.path) is damaged: two runs overlap at seqno \(seqno) of "
                    + "\(VBucketID(UInt16(place * identity.lanes + identity.lane)))"
            )
        }
    }

    private mutating func readVBuckets(
        _ connection: SQLiteConnection,
        _ identity: LaneIdentity
    ) throws(StorageError) {
        let rows = try connection.prepare("SELECT vb, state, high_seqno, born_block FROM vbucket")
        while try rows.step() {
            guard let number = UInt16(exactly: rows.integer(0)), identity.owns(number) else {
                throw StorageError(
                    .damaged,
                    "\(connection.path) is damaged: vBucket \(rows.integer(0)) is not in this lane"
                )
            }
            directory[number].high = rows.unsigned(2)
            directory[number].bornBlock = rows.unsigned(3)
            nextBlock = max(nextBlock, rows.unsigned(3))
        }
    }

    private mutating func readBlocks(
        _ connection: SQLiteConnection,
        _ identity: LaneIdentity
    ) throws(StorageError) {
        let seal = identity.seal
        let rows = try connection.prepare(
            "SELECT id, origin, raw_bytes, runs FROM block ORDER BY id"
        )
        let meta = try connection.prepare("SELECT bytes FROM meta WHERE id = ?")
        var cursor: MetadataCursor?
        var runs: [BlockRun] = []
        while try rows.step() {
            let id = rows.unsigned(0)
            nextBlock = max(nextBlock, id + 1)
            let outline = seal.open(rows.bytes(3), block: id, part: .runs)
            if outline.map({ RunTable.readOutline($0, into: &runs) }) != true {
                // The metadata contains the runs too.
                let spare = cursor ?? MetadataCursor()
                cursor = spare
                meta.bind(id)
                defer { meta.reset() }
                guard try meta.step(),
                    let content = seal.open(meta.bytes(0), block: id, part: .meta),
                    spare.open(content)
                else {
                    lost.append(id)
                    continue
                }
                runs = spare.runs
            }
            guard runs.allSatisfy({ identity.owns($0.vBucket) }) else {
                throw StorageError(
                    .damaged,
                    "\(connection.path) is damaged: block \(id) has vBuckets of other lanes"
                )
            }
            let block = LaneDirectory.Block(
                id: id,
                rawBytes: UInt32(clamping: rows.integer(2)),
                documents: 0,
                live: 0,
                origin: UInt8(clamping: rows.integer(1)),
                isMixed: false
            )
            directory.add(block, runs: runs)
        }
    }
}

extension SQLiteConnection {
    /// The records of a lane's vBuckets as last committed, by number.
    func readRecords(_ identity: LaneIdentity) throws(StorageError) -> [VBucketRecord] {
        let log = try prepare(
            "SELECT uuid, seqno, fence FROM failover WHERE vb = ? ORDER BY position"
        )
        let rows = try prepare(
            """
            SELECT vb, state, high_seqno, snapshot_start, snapshot_end, purge_seqno, max_cas, \
            max_revision, fence, intact FROM vbucket WHERE state != 0 ORDER BY vb
            """
        )
        var records: [VBucketRecord] = []
        while try rows.step() {
            var entries: [FailoverLog.Entry] = []
            log.bind(rows.integer(0))
            while try log.step() {
                entries.append(
                    FailoverLog.Entry(
                        uuid: VBucketUUID(log.unsigned(0)),
                        seqno: Seqno(log.unsigned(1)),
                        fence: log.unsigned(2)
                    )
                )
            }
            guard let number = UInt16(exactly: rows.integer(0)), identity.owns(number),
                let state = UInt8(exactly: rows.integer(1)).flatMap(VBucketState.init(rawValue:)),
                let failoverLog = FailoverLog(entries: entries)
            else {
                throw StorageError(
                    .damaged,
                    "\(path) is damaged: the record of vBucket \(rows.integer(0)) is invalid"
                )
            }
            var record = VBucketRecord(
                id: VBucketID(number),
                state: state,
                failoverLog: failoverLog
            )
            record.highSeqno = Seqno(rows.unsigned(2))
            record.snapshotStart = Seqno(rows.unsigned(3))
            record.snapshotEnd = Seqno(rows.unsigned(4))
            record.purgeSeqno = Seqno(rows.unsigned(5))
            record.maxCAS = CAS(rows.unsigned(6))
            record.maxRevision = rows.unsigned(7)
            record.fence = rows.unsigned(8)
            record.isIntact = rows.integer(9) != 0
            records.append(record)
        }
        return records
    }
}
