package import Bytes
internal import Seams
package import Vocabulary

/// One lane of a bucket on disk: one SQLite file with the blocks of every `lanes`-th vBucket.
///
/// Lanes commit independently: each vBucket is in one lane, and no transaction spans lanes.
///
/// - One writer at a time: `commit`, compaction, purge and state changes share one lock. Readers run
///   concurrently on their own connections.
/// - The directory changes only after the COMMIT that it describes.
/// - The first commit creates the file, so an empty lane costs nothing.
/// - Visitors are called while a read connection is locked; they must not call back into the store.
package final class LaneStore: Sendable {
    /// The state of the file.
    struct State {
        var exists: Bool
        /// Set once the lane is closed for good; every call throws it.
        var closed: StorageError?
        /// Consecutive errors that required the file to be reopened.
        var failures = 0
        var wasClean = true
        var checkpointFailures = 0
    }

    struct Writer {
        var lane: LaneWriter?
        var nextBlock: UInt64 = 1
        /// The file's clean-stop mark, so that it is written only when it changes.
        var isMarkedClean = false
        /// Whether the directory is in memory and agrees with the file.
        var isLoaded = false
        /// Whether an earlier error left it unknown if a transaction was committed; batches that the
        /// file already has may then be repeated.
        var mayRepeat = false
        /// vBuckets of batches of which it is unknown whether they were committed.
        ///
        /// When such a batch is repeated, versions that it declares dead may already be removed from
        /// the file.
        var doubtful: Set<UInt16> = []
        var wasUsed = false
        var packer: BlockPacker
        var compaction = CompactionProgress()
    }

    package let number: Int
    let identity: LaneIdentity
    let settings: StoreSettings
    let disk: any Disk
    let path: String
    let state: Guarded<State>
    let writer: Guarded<Writer>
    let directory: Guarded<LaneDirectory>
    let readers: LaneReaderPool
    /// Blocks that were found damaged; compaction does not rewrite them.
    let unreadable = Guarded<Set<UInt64>>([])
    /// The unreadable blocks whose documents are unknown; they have no runs in the directory.
    let lost = Guarded<Set<UInt64>>([])
    /// Called when the file was created, before any change in it is acknowledged.
    let onCreate: @Sendable () throws(StorageError) -> Void

    init(
        disk: any Disk,
        path: String,
        identity: LaneIdentity,
        settings: StoreSettings,
        exists: Bool,
        onCreate: @escaping @Sendable () throws(StorageError) -> Void
    ) {
        self.disk = disk
        self.path = path
        self.identity = identity
        self.settings = settings
        self.onCreate = onCreate
        number = identity.lane
        state = Guarded(State(exists: exists))
        writer = Guarded(Writer(packer: BlockPacker(limits: settings.blocks)))
        directory = Guarded(LaneDirectory(lanes: identity.lanes, vBuckets: identity.vBuckets))
        readers = LaneReaderPool(
            path: path,
            identity: identity,
            vfs: disk.vfsName,
            unreadable: unreadable
        )
    }

    /// Whether the lane has a file; without one it is empty.
    package var exists: Bool { state.withLock { $0.exists } }

    /// Whether the last stop before this start was clean; true for a lane without a file.
    package var wasClean: Bool { state.withLock { $0.wasClean } }

    /// The error that every call throws because the lane is closed; nil if it is open.
    package var closedBy: StorageError? { state.withLock { $0.closed } }

    func checkOpen() throws(StorageError) {
        if let error = closedBy { throw error }
    }

    func close(_ error: StorageError) {
        state.withLock { $0.closed = error }
    }

    /// Whether this lane stores `vBucket`.
    package func owns(_ vBucket: VBucketID) -> Bool { identity.owns(vBucket.number) }

    // MARK: Opening

    /// Reads the directory of an existing file.
    func open() throws(StorageError) {
        try writer.withLock { (writer) throws(StorageError) in
            _ = try open(&writer)
        }
    }

    /// The write connection; opened if necessary, together with the directory.
    func open(_ writer: inout Writer) throws(StorageError) -> LaneWriter {
        try checkOpen()
        writer.wasUsed = true
        if let lane = writer.lane { return lane }
        let exists = self.exists
        let connection = try SQLiteConnection(
            path: path,
            mode: exists ? .write : .create,
            vfs: disk.vfsName
        )
        if !exists { try connection.createTables(identity) }
        try connection.execute(Schema.pragmas)
        try connection.execute("PRAGMA cache_size = -1024")
        if settings.filePagesMax > 0 {
            try connection.execute("PRAGMA max_page_count = \(settings.filePagesMax)")
        }
        let isClean = try connection.checkIdentity(identity)
        if exists, !isClean || writer.mayRepeat { try secureLog(connection) }
        if !exists {
            try onCreate()
        } else if !writer.isLoaded {
            try load(connection, &writer, isClean: isClean)
        }
        writer.isLoaded = true
        writer.isMarkedClean = isClean
        state.withLock { $0.exists = true }
        let lane = try LaneWriter(connection, seal: identity.seal)
        writer.lane = lane
        return lane
    }

    /// Copies the WAL into the file after an error or a crash, and truncates it.
    ///
    /// Frames that are readable in the WAL may not be on disk: after a failed fsync the kernel
    /// discards the dirty pages, and the next fsync succeeds. When SQLite reopens the WAL, it takes
    /// such frames for committed and appends to them; a power cut would then lose the appended frames
    /// too.
    ///
    /// The WAL is rewritten first. If its beginning never reached the disk, a power cut would leave
    /// the previous WAL there; replaying that over the file would undo the frames copied into it.
    private func secureLog(_ connection: SQLiteConnection) throws(StorageError) {
        try storage { () throws(DiskError) in try disk.rewriteDurably(path + "-wal") }
        try connection.checkpoint(.truncate)
    }

    private func load(
        _ connection: SQLiteConnection,
        _ writer: inout Writer,
        isClean: Bool
    ) throws(StorageError) {
        let contents = try LaneContents(connection, identity)
        directory.withLock { directory in
            var fresh = contents.directory
            fresh.adoptLive(from: directory)
            directory = fresh
        }
        writer.nextBlock = max(writer.nextBlock, contents.nextBlock)
        if !writer.mayRepeat { state.withLock { $0.wasClean = isClean } }
        unreadable.withLock { $0.formUnion(contents.lost) }
        lost.withLock { $0 = Set(contents.lost) }
    }

    /// Runs `body` on the write connection; an error decides whether the connection is closed.
    func write<Result>(
        _ body: (inout Writer, LaneWriter) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        try writer.withLock { (writer) throws(StorageError) in
            do throws(StorageError) {
                let lane = try open(&writer)
                let result = try body(&writer, lane)
                state.withLock { $0.failures = 0 }
                return result
            } catch {
                handleFailure(error, &writer)
                // A flush or deletion may remove the file during a commit; report that instead.
                throw closedBy ?? error
            }
        }
    }

    /// Closes the connection after an error of the file: its page cache may be wrong.
    ///
    /// The next call reopens the file and reads back what was committed. After `failuresMax`
    /// consecutive failures the lane is closed for good.
    private func handleFailure(_ error: StorageError, _ writer: inout Writer) {
        switch error.code {
        case .busy, .gone, .quarantined, .foreign, .otherFormat:
            return
        case .full where writer.lane?.connection.isInTransaction != true:
            return  // Rolled back; nothing changed.
        case .damaged where error.damage != nil:
            return  // Only one block is damaged.
        case .full, .failed, .damaged, .denied, .missing:
            writer.lane = nil
            writer.isLoaded = false
            writer.mayRepeat = true
            let failures = state.withLock { state in
                state.failures += 1
                return state.failures
            }
            guard failures >= settings.failuresMax, error.code != .full else { return }
            close(
                StorageError(
                    .quarantined,
                    "lane \(number) is closed after \(failures) consecutive failures, the last: "
                        + error.description
                )
            )
        }
    }
}

extension LaneStore {
    /// Appends the value of one version to `writer`.
    ///
    /// - Throws: `StorageError`: `.damaged` if its block is unreadable, any code if the lane is
    ///   closed or its file fails.
    /// - Returns: False if the lane has no such version: it was never committed, or was removed
    ///   since.
    package func fetchValue(
        _ vBucket: VBucketID,
        _ seqno: Seqno,
        into writer: ByteWriter
    ) throws(StorageError) -> Bool {
        try fetch(vBucket, seqno) { (reader, block) throws(StorageError) in
            try reader.readValue(block, vBucket.number, at: seqno.value, into: writer)
        }
    }

    /// Visits metadata, key and value of one version, for documents whose key was ejected too.
    ///
    /// - Throws: `StorageError`, as `fetchValue`.
    /// - Returns: False if the lane has no such version; `visit` was not called then.
    package func fetchDocument(
        _ vBucket: VBucketID,
        _ seqno: Seqno,
        visit: (DocumentMeta, _ key: ByteView, _ value: ByteView) -> Void
    ) throws(StorageError) -> Bool {
        let value = ByteWriter(capacity: 1 << 10)
        return try fetch(vBucket, seqno) { (reader, block) throws(StorageError) in
            guard try reader.openMeta(block), reader.cursor.select(vBucket.number, seqno.value)
            else { return false }
            guard try reader.readValue(block, vBucket.number, at: seqno.value, into: value) else {
                return false
            }
            visit(reader.cursor.meta, reader.cursor.key, value.view)
            return true
        }
    }

    /// Finds a version's block in the directory and reads it; retries if compaction removed the
    /// block between the two steps.
    private func fetch(
        _ vBucket: VBucketID,
        _ seqno: Seqno,
        body: (LaneReader, UInt64) throws(StorageError) -> Bool
    ) throws(StorageError) -> Bool {
        precondition(owns(vBucket), "\(vBucket) is not in lane \(number)")
        try checkOpen()
        var before: UInt64 = 0
        for attempt in 0..<4 {
            let found = directory.withLock { $0.block(of: seqno.value, in: vBucket.number) }
            guard let block = found else { return false }
            // The directory still names the block, but the version was not found in it.
            if block == before, attempt == 3 { return false }
            let isRead = try readers.fetch { (reader) throws(StorageError) in
                try body(reader, block)
            }
            if isRead { return true }
            // The rewrite is committed, but the directory is not updated yet: wait for the writer.
            if block == before { writer.withLock { _ in } }
            before = block
        }
        return false
    }
}

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
