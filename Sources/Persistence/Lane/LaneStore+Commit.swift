internal import Bytes
package import Vocabulary

extension LaneStore {
    /// What a commit came to.
    package struct CommitSummary: Hashable, Sendable {
        package var documents = 0
        package var blocks = 0
        /// Bytes of values, before compression.
        package var rawBytes = 0
    }

    /// A block that was inserted and is to enter the directory once the transaction is committed.
    struct InsertedBlock {
        let block: LaneDirectory.Block
        let runs: Range<Int>
    }

    /// What a transaction inserted so far.
    struct Insertions {
        var blocks: [InsertedBlock] = []
        var runs: [BlockRun] = []
        var summary = CommitSummary()
    }

    /// Makes a batch durable: documents, prepares, vBucket records and failover logs in one
    /// transaction.
    ///
    /// When this returns, everything in the batch survives a power cut. When it throws `.full`,
    /// nothing has changed and the same batch may come again. After `.failed` it is unknown
    /// whether the batch is in the file; the next commit finds out, and what of a repeated batch
    /// the file already has is left out.
    @discardableResult
    package func commit(_ batch: CommitBatch) throws(StorageError) -> CommitSummary {
        guard !batch.isEmpty else { return CommitSummary() }
        for section in batch.sections {
            precondition(owns(section.record.id), "a batch holds vBuckets of one lane")
        }
        let (summary, doubtful) = try write { (writer, lane) throws(StorageError) in
            let insertions: Insertions
            do throws(StorageError) {
                insertions = try commit(batch, &writer, lane)
            } catch {
                if error.code != .full {
                    writer.doubtful.formUnion(batch.sections.map { $0.record.id.number })
                }
                throw error
            }
            publish(insertions, of: batch)
            defer { writer.doubtful.subtract(batch.sections.map { $0.record.id.number }) }
            return (insertions.summary, writer.doubtful)
        }
        // Of those the table still proves most, one by one, when compaction asks.
        markDead(batch.dead.filter { !doubtful.contains($0.vBucket) })
        checkpointIfDue()
        // Flushed or deleted while this went on: the batch speaks of documents that are gone.
        try checkOpen()
        return summary
    }

    private func commit(
        _ batch: CommitBatch,
        _ writer: inout Writer,
        _ lane: LaneWriter
    ) throws(StorageError) -> Insertions {
        plan(batch, &writer)
        var insertions = Insertions()
        var nextBlock = writer.nextBlock
        let isMarkedClean = writer.isMarkedClean
        let packer = writer.packer
        try lane.connection.transaction { () throws(StorageError) in
            for range in packer.blocks {
                try insert(
                    batch.documents,
                    packer.order[range],
                    nextBlock,
                    .commit,
                    lane,
                    &insertions
                )
                nextBlock += 1
            }
            for section in batch.sections {
                try write(section.record, lane)
            }
            for (vBucket, seqno) in batch.completed {
                try lane.prepares.delete(vBucket, seqno)
            }
            try lane.prepares.insert(batch)
            if isMarkedClean { try lane.connection.execute("UPDATE lane SET clean_stop = 0") }
        }
        writer.nextBlock = nextBlock
        writer.isMarkedClean = false
        writer.packer.removeAll()
        lane.encoder.trim()
        return insertions
    }

    /// Deals the batch's documents out to blocks.
    private func plan(_ batch: CommitBatch, _ writer: inout Writer) {
        writer.packer.removeAll()
        let sections = batch.sections.sorted { $0.record.id < $1.record.id }
        for section in sections where section.start < section.end {
            let high = directory.withLock { $0[section.record.id.number].high }
            var start = section.start
            while start < section.end, batch.documents.entries[start].seqno <= high {
                precondition(
                    writer.mayRepeat,
                    "\(section.record.id) was persisted through \(high) and is handed "
                        + "\(batch.documents.entries[start].seqno) once more"
                )
                start += 1
            }
            guard start < section.end else { continue }
            writer.packer.add(UInt32(start)..<UInt32(section.end), of: batch.documents)
        }
        writer.packer.finish(batch.documents)
    }

    func insert(
        _ documents: DocumentBuffer,
        _ order: ArraySlice<UInt32>,
        _ block: UInt64,
        _ origin: BlockOrigin,
        _ lane: LaneWriter,
        _ insertions: inout Insertions
    ) throws(StorageError) {
        try lane.insert(documents, order, block: block, origin: origin)
        let start = insertions.runs.count
        insertions.runs.append(contentsOf: lane.encoder.runs)
        let inserted = LaneDirectory.Block(
            id: block,
            rawBytes: UInt32(lane.encoder.rawBytes),
            documents: 0,
            live: 0,
            origin: UInt8(origin.rawValue),
            isMixed: false
        )
        insertions.blocks.append(
            InsertedBlock(block: inserted, runs: start..<insertions.runs.count)
        )
        insertions.summary.blocks += 1
        insertions.summary.documents += order.count
        insertions.summary.rawBytes += lane.encoder.rawBytes
    }

    private func write(_ record: VBucketRecord, _ lane: LaneWriter) throws(StorageError) {
        let (bornBlock, mark) = directory.withLock { directory in
            (directory[record.id.number].bornBlock, directory[record.id.number].logMark)
        }
        try lane.write(record, bornBlock: bornBlock)
        if mark != record.failoverLog.mark {
            try lane.write(record.failoverLog, of: record.id)
        }
    }

    private func publish(_ insertions: Insertions, of batch: CommitBatch) {
        directory.withLock { directory in
            for inserted in insertions.blocks {
                directory.add(inserted.block, runs: insertions.runs[inserted.runs])
            }
            for section in batch.sections {
                let number = section.record.id.number
                directory[number].high = section.record.highSeqno.value
                directory[number].logMark = section.record.failoverLog.mark
            }
        }
    }

    /// Notes versions that lost their place to a persisted successor, a few at a time so that
    /// readers get their turn.
    private func markDead(_ dead: [(vBucket: UInt16, seqno: UInt64)]) {
        var rest = dead[...]
        while !rest.isEmpty {
            let slice = rest.prefix(512)
            directory.withLock { directory in
                for (vBucket, seqno) in slice { directory.markDead(seqno, in: vBucket) }
            }
            rest = rest.dropFirst(512)
        }
    }

    /// Notes that a version is dead, for warmup, which meets superseded versions.
    package func markDead(_ vBucket: VBucketID, _ seqno: Seqno) {
        directory.withLock { $0.markDead(seqno.value, in: vBucket.number) }
    }

    /// Forgets what `markDead` was told of a vBucket, because its warmup starts over.
    package func resetLive(_ vBucket: VBucketID) {
        directory.withLock { $0.resetLive(vBucket.number) }
    }

    // MARK: The write-ahead log

    /// Copies the WAL into the file when it has grown (storage.md 3.8).
    ///
    /// A failure here loses
    /// nothing: what was committed stays in the WAL, and the next commit tries again.
    private func checkpointIfDue() {
        writer.withLock { writer in
            guard let connection = writer.lane?.connection else { return }
            let pages = connection.walPages
            guard pages > settings.walPagesPassive else { return }
            checkpoint(connection, pages > settings.walPagesTruncate ? .truncate : .passive)
        }
    }

    func checkpoint(_ connection: Connection, _ kind: Connection.Checkpoint) {
        do throws(StorageError) {
            try connection.checkpoint(kind)
            state.withLock { $0.checkpointFailures = 0 }
        } catch {
            state.withLock { $0.checkpointFailures += 1 }
        }
    }

    // MARK: Stopping

    /// Writes that the lane is in use, before the first change is acknowledged: a stop without
    /// `closeCleanly` is then known for what it was.
    package func markRunning() throws(StorageError) {
        guard exists else { return }
        try setClean(false)
    }

    /// Writes that nothing was lost, empties the WAL and closes the file.
    ///
    /// Everything the engine acknowledged must have been committed before.
    package func closeCleanly() throws(StorageError) {
        readers.closeAll()
        guard exists else { return }
        try setClean(true)
        writer.withLock { writer in
            if let connection = writer.lane?.connection { checkpoint(connection, .truncate) }
            writer.lane = nil
        }
    }

    private func setClean(_ isClean: Bool) throws(StorageError) {
        try write { (writer, lane) throws(StorageError) in
            guard writer.isMarkedClean != isClean else { return }
            try lane.connection.transaction { () throws(StorageError) in
                try lane.connection.execute("UPDATE lane SET clean_stop = \(isClean ? 1 : 0)")
            }
            writer.isMarkedClean = isClean
        }
    }

    /// Closes what was not used since the last call; a writer's last act is to empty the WAL.
    ///
    /// Waits for whoever writes, and for the disk: to be called where commits are.
    package func closeIdle() {
        readers.closeIdle()
        writer.withLock { writer in
            guard !writer.wasUsed, let connection = writer.lane?.connection else {
                writer.wasUsed = false
                return
            }
            checkpoint(connection, .truncate)
            writer.lane = nil
        }
    }
}

extension LaneStore {
    /// Closes every connection at once, without a last word to the file.
    func abandon() {
        readers.closeAll()
        writer.withLock { $0.lane = nil }
    }
}
