internal import Bytes
package import Vocabulary

extension LaneStore {
    /// The size of a commit.
    package struct CommitSummary: Hashable, Sendable {
        package var documents = 0
        package var blocks = 0
        /// Bytes of values before compression.
        package var rawBytes = 0
    }

    /// An inserted block, which enters the directory after the transaction is committed.
    struct InsertedBlock {
        let block: LaneDirectory.Block
        let runs: Range<Int>
    }

    /// The blocks that a transaction inserted so far.
    struct Insertions {
        var blocks: [InsertedBlock] = []
        var runs: [BlockRun] = []
        var summary = CommitSummary()
    }

    /// Makes a batch durable: documents, prepares, vBucket records and failover logs in one
    /// transaction.
    ///
    /// When this returns, the whole batch survives a power cut.
    ///
    /// - Throws: `StorageError`. After `.full` nothing has changed and the same batch may be
    ///   repeated. After `.failed` it is unknown whether the batch is in the file; the next commit
    ///   reads the file back and skips the documents of a repeated batch that the file already has.
    ///   After `.gone` the bucket was flushed or deleted: discard the batch. After `.quarantined`
    ///   the lane is closed.
    /// - Returns: The size of the commit; zero for an empty batch.
    @discardableResult
    package func commit(_ batch: CommitBatch) throws(StorageError) -> CommitSummary {
        guard !batch.isEmpty else { return CommitSummary() }
        for section in batch.sections {
            precondition(owns(section.record.id), "all vBuckets of a batch are in one lane")
        }
        let (summary, doubtful) = try write { (writer, lane) throws(StorageError) in
            let insertions: Insertions
            do throws(StorageError) {
                insertions = try commit(batch, &writer, in: lane)
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
        // Versions of doubtful vBuckets are not marked dead here; compaction asks the hash table for
        // each of them.
        markDead(batch.dead.filter { !doubtful.contains($0.vBucket) })
        checkpointIfDue()
        // If the bucket was flushed or deleted meanwhile, the batch's documents no longer exist.
        try checkOpen()
        return summary
    }

    private func commit(
        _ batch: CommitBatch,
        _ writer: inout Writer,
        in lane: LaneWriter
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
                    block: nextBlock,
                    origin: .commit,
                    in: lane,
                    counting: &insertions
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

    /// Assigns the batch's documents to blocks; skips those that are already in the file.
    private func plan(_ batch: CommitBatch, _ writer: inout Writer) {
        writer.packer.removeAll()
        let sections = batch.sections
        // Indices are sorted, because a copy of a section retains its record's failover log.
        let order = sections.indices.sorted { sections[$0].record.id < sections[$1].record.id }
        for index in order where sections[index].start < sections[index].end {
            let (id, end) = (sections[index].record.id, sections[index].end)
            let high = directory.withLock { $0[id.number].high }
            var start = sections[index].start
            while start < end, batch.documents.entries[start].seqno <= high {
                precondition(
                    writer.mayRepeat,
                    "\(id) is persisted through seqno \(high) and the batch has "
                        + "seqno \(batch.documents.entries[start].seqno) again"
                )
                start += 1
            }
            guard start < end else { continue }
            writer.packer.add(UInt32(start)..<UInt32(end), of: batch.documents)
        }
        writer.packer.finish(batch.documents)
    }

    func insert(
        _ documents: DocumentBuffer,
        _ order: ArraySlice<UInt32>,
        block: UInt64,
        origin: BlockOrigin,
        in lane: LaneWriter,
        counting insertions: inout Insertions
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

    /// Marks versions that have a persisted successor dead, 512 per lock acquisition so that
    /// readers are not blocked for long.
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

    /// Marks a version dead; called by warmup, which reads superseded versions too.
    package func markDead(_ vBucket: VBucketID, _ seqno: Seqno) {
        directory.withLock { $0.markDead(seqno.value, in: vBucket.number) }
    }

    /// Marks all versions of a vBucket live again, because its warmup restarts.
    package func resetLive(_ vBucket: VBucketID) {
        directory.withLock { $0.resetLive(vBucket.number) }
    }

    // MARK: The write-ahead log

    /// Copies the WAL into the file once it exceeds `walPagesPassive`.
    ///
    /// A failure loses no data: committed pages stay in the WAL, and the next commit retries.
    private func checkpointIfDue() {
        writer.withLock { writer in
            guard let connection = writer.lane?.connection else { return }
            let pages = connection.walPages
            guard pages > settings.walPagesPassive else { return }
            checkpoint(connection, pages > settings.walPagesTruncate ? .truncate : .passive)
        }
    }

    func checkpoint(_ connection: SQLiteConnection, _ kind: SQLiteConnection.Checkpoint) {
        do throws(StorageError) {
            try connection.checkpoint(kind)
            state.withLock { $0.checkpointFailures = 0 }
        } catch {
            state.withLock { $0.checkpointFailures += 1 }
        }
    }

    // MARK: Stopping

    /// Marks the lane as running in its file, so that the next start detects a crash.
    ///
    /// Called before the first change is acknowledged. Does nothing if the lane has no file.
    ///
    /// - Throws: `StorageError` if the file cannot be written, or the lane is closed.
    package func markRunning() throws(StorageError) {
        guard exists else { return }
        try setClean(false)
    }

    /// Marks the lane as cleanly stopped, truncates the WAL and closes the file.
    ///
    /// Every acknowledged change must have been committed before.
    ///
    /// - Throws: `StorageError` if the file cannot be written, or the lane is closed.
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

    /// Closes the connections that were not used since the last call; an idle write connection
    /// truncates the WAL first.
    ///
    /// Waits for the writer and the disk, so it must be called where commits run.
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
    /// Closes all connections without writing to the file.
    func abandon() {
        readers.closeAll()
        writer.withLock { $0.lane = nil }
    }
}
