internal import Bytes
internal import Seams

/// The SQLite file of one view index: nodes as bytes, and the progress that they stand for.
///
/// The file does not know the format of a node. It stores nodes, reductions, large values, the
/// seqnos of vBuckets, the log for rollbacks and the head in one transaction per commit, so that a
/// crash at any instant leaves the old commit or the new one.
///
/// - One writer, one checkpointer, and readers on demand, each with its own connection. Readers,
///   checkpoints and commits never wait for each other.
/// - A commit is not synced: after a power cut the file may be at an earlier commit. A checkpoint
///   that copies everything makes the commits before it durable.
/// - After an error other than `.full` and `.busy`, commits and checkpoints throw that error until
///   the file is opened again: what the system's page cache holds may differ from the disk.
package final class IndexFile: Sendable {
    private struct State {
        /// Set by `close` and by errors; every later call throws it.
        var closed: StorageError?
        var walPages = 0
        var writerBytes = 0
    }

    private final class Writer {
        let reads: IndexReads
        var head: IndexHead

        init(_ connection: SQLiteConnection) throws(StorageError) {
            reads = IndexReads(connection)
            head = try reads.head()
        }
    }

    package let path: String
    package let identity: IndexIdentity
    private let settings: IndexSettings
    private let disk: any Disk
    private let state = Guarded(State())
    private let writer: Guarded<Writer?>
    private let checkpointer = Guarded<SQLiteConnection?>(nil)
    private let readers: IndexReaderPool

    /// Opens the file of `identity` in an existing directory; creates it if it does not exist.
    ///
    /// - Throws: `StorageError`: `.foreign` if the file has another identity or is not an index
    ///   file, `.otherFormat` if another version wrote it, `.damaged`, `.full`, or a disk error. If the
    ///   file is useless, the caller removes it or sets it aside (`IndexDirectory`).
    package init(
        in directory: IndexDirectory,
        identity: IndexIdentity,
        settings: IndexSettings
    ) throws(StorageError) {
        path = directory.path(of: identity.signature)
        self.identity = identity
        self.settings = settings
        disk = directory.disk
        readers = IndexReaderPool(path: path, vfs: disk.vfsName, settings: settings)
        // As for lanes (`LaneStore.secureLog`): frames that are readable after a crash or a failed
        // sync may not be on disk. The WAL is empty or absent after a clean close.
        let wal = path + "-wal"
        let disk = disk
        try storage { () throws(DiskError) in try disk.rewriteDurably(wal) }
        let connection = try SQLiteConnection(path: path, mode: .create, vfs: disk.vfsName)
        try connection.prepareForIndex(settings)
        if settings.filePagesMax > 0 {
            try connection.execute("PRAGMA max_page_count = \(settings.filePagesMax)")
        }
        try IndexSchema.prepare(connection, identity)
        writer = Guarded(try Writer(connection))
    }

    deinit {
        // An error here has no receiver; after a failed copy the WAL is kept for the next opening.
        try? close()
    }

    // MARK: Writing

    /// Runs `body` in a transaction and commits it with the next commit number.
    ///
    /// If `body` throws, nothing is changed.
    ///
    /// - Throws: `StorageError`: `.full` if there is no room, and nothing was changed; `.gone` if
    ///   the file was closed; another disk error, after which the file must be opened again; or
    ///   the error of `body`.
    package func commit<Result>(
        _ body: (IndexTransaction) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        try write { (writer) throws(StorageError) in
            let connection = writer.reads.connection
            readers.beginCommit()
            // Runs after an error too: whether the commit is in the file may be unknown.
            defer { readers.endCommit() }
            let transaction = IndexTransaction(writer.reads, after: writer.head)
            let result = try connection.transaction { () throws(StorageError) in
                let result = try body(transaction)
                try writer.reads.statements.write(transaction.head)
                return result
            }
            writer.head = transaction.head
            state.withLock { $0.walPages = connection.walPages }
            return result
        }
    }

    /// Runs `body` on the reads of the write connection, outside a transaction.
    ///
    /// Only commits change the file, so these reads see the newest commit until the next one. A
    /// batch can be prepared before its transaction.
    ///
    /// - Throws: `StorageError`, as `commit`.
    package func readNewest<Result>(
        _ body: (IndexReads) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        try write { (writer) throws(StorageError) in try body(writer.reads) }
    }

    /// The head of the newest commit.
    ///
    /// - Throws: `StorageError`: the error that closed the file.
    package func head() throws(StorageError) -> IndexHead {
        try write { (writer) throws(StorageError) in writer.head }
    }

    /// Bytes of all pages, and of those that are in use: the others are filled by later commits.
    ///
    /// - Throws: `StorageError`, as `commit`.
    package func pageBytes() throws(StorageError) -> (all: UInt64, used: UInt64) {
        try readNewest { (reads) throws(StorageError) in
            let pages = try reads.connection.integer("PRAGMA page_count") ?? 0
            let free = try reads.connection.integer("PRAGMA freelist_count") ?? 0
            let used = UInt64(max(0, pages - free)) * IndexSchema.pageBytes
            return (UInt64(max(0, pages)) * IndexSchema.pageBytes, used)
        }
    }

    private func write<Result>(
        _ body: (Writer) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        try writer.withLock { (writer) throws(StorageError) in
            try checkOpen()
            guard let writer else { throw gone }
            do throws(StorageError) {
                return try body(writer)
            } catch {
                fail(error, isInTransaction: writer.reads.connection.isInTransaction)
                throw error
            }
        }
    }

    /// Refuses later calls after an error that requires the file to be opened again.
    ///
    /// A transaction that is still open could not be rolled back.
    private func fail(_ error: StorageError, isInTransaction: Bool) {
        let endsUse =
            switch error.code {
            case .full, .busy, .gone, .foreign, .otherFormat, .quarantined: isInTransaction
            case .failed, .damaged, .denied, .missing: true
            }
        guard endsUse else { return }
        state.withLock { state in if state.closed == nil { state.closed = error } }
    }

    // MARK: Checkpoints

    /// Pages in the WAL after the last commit or complete checkpoint.
    package var walPages: Int { state.withLock { $0.walPages } }

    /// Copies committed pages from the WAL to the file, as far as no reader needs the old ones.
    ///
    /// Waits for the disk, and blocks neither commits nor readers; one thread at a time. The WAL
    /// stays as long as it is; after a complete checkpoint the next commit begins it again, if no
    /// reader has a snapshot from before the checkpoint.
    ///
    /// - Throws: `StorageError`: `.gone` if the file was closed, `.full`, or another disk error,
    ///   after which the file must be opened again.
    package func checkpoint() throws(StorageError) -> IndexCheckpoint {
        try checkpointer.withLock { (connection) throws(StorageError) in
            try checkOpen()
            do throws(StorageError) {
                if connection == nil { connection = try openCheckpointer() }
                guard let open = connection else { throw gone }
                readers.endKept()
                let (pages, copied) = try open.copyWAL()
                let result = IndexCheckpoint(walPages: pages, copiedPages: copied)
                if result.isComplete {
                    state.withLock { if $0.walPages == pages { $0.walPages = 0 } }
                }
                return result
            } catch {
                fail(error, isInTransaction: false)
                throw error
            }
        }
    }

    private func openCheckpointer() throws(StorageError) -> SQLiteConnection {
        let connection = try SQLiteConnection(path: path, mode: .write, vfs: disk.vfsName)
        var own = settings
        // It copies pages and reads none.
        own.cacheBytes = 0
        try connection.prepareForIndex(own)
        // The file is opened at the first read.
        _ = try connection.integer("PRAGMA user_version")
        return connection
    }

    // MARK: Reading

    /// A reader that no other caller has; nil if `IndexSettings.readersMax` are in use.
    ///
    /// - Throws: `StorageError`: `.gone` if the file was closed, or a disk error.
    package func acquireReader() throws(StorageError) -> IndexReader? {
        try checkOpen()
        return try readers.acquire()
    }

    /// Keeps the reader's connection for the next caller; its snapshot until the next commit or
    /// checkpoint.
    package func release(_ reader: IndexReader) { readers.release(reader) }

    /// Whether a caller has a reader.
    package var isBeingRead: Bool { readers.areInUse }

    /// Closes the read connections that no caller has, to free their memory and descriptors.
    package func closeIdleReaders() { readers.closeIdle() }

    // MARK: Life

    /// Bytes that all connections have allocated; for those in use, the last known number.
    package var memoryBytes: Int {
        writer.withLockIfFree { writer in
            let bytes = writer?.reads.connection.memoryBytes ?? 0
            state.withLock { $0.writerBytes = bytes }
        }
        let checkpointing = checkpointer.withLockIfFree { $0?.memoryBytes ?? 0 } ?? 0
        return state.withLock { $0.writerBytes } + checkpointing + readers.memoryBytes
    }

    /// Copies the WAL into the file, unless `keepsLog`, and closes all connections; the writer last.
    ///
    /// A copy takes as long as two syncs of the disk. A kept WAL is read at the next opening, as after
    /// a crash.
    ///
    /// Waits for calls that are in progress, but not for readers to be released: their later calls
    /// throw `.gone`. Closing twice does nothing.
    ///
    /// - Throws: `StorageError` if the WAL cannot be copied; the connections are closed anyway.
    package func close(keepsLog: Bool = false) throws(StorageError) {
        let before = state.withLock { state in
            let before = state.closed
            state.closed = before ?? gone
            return before
        }
        readers.closeAll()
        checkpointer.withLock { $0 = nil }
        try writer.withLock { (writer) throws(StorageError) in
            defer {
                writer = nil
                state.withLock { $0.writerBytes = 0 }
            }
            guard let connection = writer?.reads.connection else { return }
            if keepsLog { return connection.keepWAL() }
            do throws(StorageError) {
                if let before { throw before }
                _ = try connection.copyWAL()
            } catch {
                // SQLite would copy the WAL at the last close, and a copy after a failed sync must
                // wait until the WAL was rewritten.
                connection.keepWAL()
                guard before == nil else { return }
                throw error
            }
        }
    }

    private var gone: StorageError { StorageError(.gone, "\(path) was closed") }

    private func checkOpen() throws(StorageError) {
        if let error = state.withLock({ $0.closed }) { throw error }
    }
}
