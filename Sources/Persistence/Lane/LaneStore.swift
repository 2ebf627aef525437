internal import Bytes
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
