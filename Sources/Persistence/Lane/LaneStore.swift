internal import Bytes
internal import Seams
package import Vocabulary

/// One lane of a bucket on disk: one SQLite file with the blocks of every `lanes`-th vBucket.
///
/// Lanes commit independently: a vBucket lives in one of them, and nothing is atomic across them.
///
/// - One writer at a time (`commit`, compaction, purge and state changes take the same lock);
///   readers work beside it on connections of their own.
/// - The directory is changed only after the COMMIT that it speaks of returned.
/// - A file is made by the first commit: an empty lane costs nothing.
/// - Visitors are called while a reading connection is held; they must not call back into the
///   store.
package final class LaneStore: Sendable {
    /// What is known of the file.
    struct State {
        var exists: Bool
        /// Set while the file is closed for good: every call throws it.
        var closed: StorageError?
        /// Errors in a row after which the file had to be opened afresh.
        var failures = 0
        var wasClean = true
        var checkpointFailures = 0
    }

    struct Writer {
        var lane: LaneWriter?
        var nextBlock: UInt64 = 1
        /// What the file says, so that it is written only when it changes.
        var isMarkedClean = false
        /// The directory is in memory and agrees with the file.
        var isLoaded = false
        /// An error once left open whether a transaction was committed, so batches may come again
        /// that the file already has.
        var mayRepeat = false
        /// vBuckets of batches of which it is unknown whether the file has them.
        ///
        /// What these say is dead may be gone from the file already when they come again.
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
    let readers: LaneReaders
    /// Blocks that were found damaged; compaction leaves them alone.
    let unreadable = Guarded<Set<UInt64>>([])
    /// Of those, the ones of which nobody knows what they held: the directory has nothing of them.
    let lost = Guarded<Set<UInt64>>([])
    /// Told when the file is made, before anything in it is acknowledged.
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
        readers = LaneReaders(
            path: path,
            identity: identity,
            vfs: disk.vfsName,
            unreadable: unreadable
        )
    }

    /// Whether the lane has a file; without one it is empty.
    package var exists: Bool { state.withLock { $0.exists } }

    /// Whether the last stop before this start was clean; an empty lane's was.
    package var wasClean: Bool { state.withLock { $0.wasClean } }

    /// Why the lane is closed to everybody, if it is.
    package var closedBy: StorageError? { state.withLock { $0.closed } }

    func checkOpen() throws(StorageError) {
        if let error = closedBy { throw error }
    }

    func close(_ error: StorageError) {
        state.withLock { $0.closed = error }
    }

    /// Whether the lane's vBuckets include `vBucket`.
    package func owns(_ vBucket: VBucketID) -> Bool { identity.owns(vBucket.number) }

    // MARK: Opening

    /// Reads the directory of an existing file.
    func open() throws(StorageError) {
        try writer.withLock { (writer) throws(StorageError) in
            _ = try open(&writer)
        }
    }

    /// The writing connection, opened (and read) where it was not.
    func open(_ writer: inout Writer) throws(StorageError) -> LaneWriter {
        try checkOpen()
        writer.wasUsed = true
        if let lane = writer.lane { return lane }
        let exists = self.exists
        let connection = try Connection(
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
        try connection.migrate()
        if !exists {
            try onCreate()
        } else if !writer.isLoaded {
            try load(connection, &writer, isClean)
        }
        writer.isLoaded = true
        writer.isMarkedClean = isClean
        state.withLock { $0.exists = true }
        let lane = try LaneWriter(connection, seal: identity.seal)
        writer.lane = lane
        return lane
    }

    /// Copies into the file what is in the WAL after an error or a crash, and cuts the WAL.
    ///
    /// What is read there need not be on disk: the kernel forgets what an fsync failed to write, and
    /// the next fsync says that all is well. SQLite takes such frames for committed when it opens the
    /// WAL afresh, and appends to them; a power cut would then take what comes behind them as well.
    ///
    /// The WAL is written again first: where the kernel forgot its beginning, what a power cut leaves of
    /// it is the WAL of before, and that one, replayed over the file into which these frames were copied,
    /// takes back what was stored since.
    private func secureLog(_ connection: Connection) throws(StorageError) {
        try storage { () throws(DiskError) in try disk.secure(path + "-wal") }
        try connection.checkpoint(.truncate)
    }

    private func load(
        _ connection: Connection,
        _ writer: inout Writer,
        _ isClean: Bool
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

    /// Runs work on the writing connection; what it throws decides about the connection's fate.
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
                settle(error, &writer)
                // A flush or a deletion takes the file away under a commit: that is its error then.
                throw closedBy ?? error
            }
        }
    }

    /// After an error of the file the handle is not trusted again (its page cache may lie): it is
    /// closed, and the next call opens the file and reads back what was really committed.
    private func settle(_ error: StorageError, _ writer: inout Writer) {
        switch error.code {
        case .busy, .gone, .quarantined, .foreign, .newer:
            return
        case .full where writer.lane?.connection.isInTransaction != true:
            return  // Rolled back; nothing changed.
        case .damaged where error.damage != nil:
            return  // One block, not the file.
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
                    "lane \(number) is closed after \(failures) failures in a row, the last: "
                        + error.description
                )
            )
        }
    }
}
