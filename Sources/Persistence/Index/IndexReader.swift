internal import Bytes

/// A read connection to an index file, with a snapshot of its own.
///
/// - From `begin` to `end`, all reads see the commit whose head `begin` returned, whatever is
///   committed meanwhile. The WAL cannot begin again from its start until `end`.
/// - May be used from any thread, by one at a time: a call waits for the call before it.
/// - A released reader keeps its snapshot until the next commit or checkpoint begins: most queries read
///   the same commit, and to begin and end a snapshot costs more than to read a node.
/// - After `IndexFile.close`, every call throws `.gone`.
package final class IndexReader: Sendable {
    struct State {
        var reads: IndexReads?
        var isInSnapshot = false
        /// The head of the open snapshot, and the count of commits before it.
        var opened: (head: IndexHead, commits: UInt64)?
        /// Whether the snapshot is of an earlier caller, for the next one.
        var isKept = false
        /// Cleared after an error of the file: the connection is not used for another reader.
        var isReusable = true
    }

    private let path: String
    private let state: Guarded<State>
    private let memory = Guarded(0)
    /// Counts the begins and the ends of the file's commits: odd during a commit.
    private let commits: Guarded<UInt64>

    init(_ connection: SQLiteConnection, commits: Guarded<UInt64> = Guarded(0)) {
        path = connection.path
        self.commits = commits
        state = Guarded(State(reads: IndexReads(connection)))
    }

    /// Opens a file of any identity read-only, for tools; a node may have it open.
    ///
    /// - Throws: `StorageError`: `.missing`, `.foreign` or `.otherFormat` if it is not an index file that
    ///   this release reads, `.damaged`, or a disk error.
    package static func inspect(
        path: String,
        vfs: String?
    ) throws(StorageError) -> IndexReader {
        let connection = try SQLiteConnection(path: path, mode: .read, vfs: vfs)
        try connection.prepareForIndex(IndexSettings())
        try IndexSchema.checkFormat(connection)
        return IndexReader(connection)
    }

    /// Begins a snapshot of the newest commit; ends an earlier one.
    ///
    /// - Throws: `StorageError`: `.gone` if the file was closed, `.damaged`, or a disk error; no
    ///   snapshot is open then.
    /// - Returns: The head of the snapshot's commit.
    package func begin() throws(StorageError) -> IndexHead {
        // Before the snapshot: a commit that ends meanwhile counts as one that it lacks.
        let count = commits.withLock { $0 }
        if let head = state.withLock({ $0.resumeSnapshot(ifOf: count) }) { return head }
        end()
        let head = try use(beginsSnapshot: true) { (reads) throws(StorageError) in
            try reads.statements[.begin].run()
            return try reads.head()
        }
        state.withLock { $0.opened = (head, count) }
        return head
    }

    /// Ends the snapshot; does nothing without one.
    package func end() {
        state.withLock { $0.endSnapshot() }
    }

    /// Keeps the snapshot for the next caller if it is of the newest commit, and no other commit has
    /// begun; ends it if not.
    func keepOrEnd() {
        let count = commits.withLock { $0 }
        let isNewest = count.isMultiple(of: 2)
        state.withLock { state in
            state.isKept =
                isNewest && state.isInSnapshot && state.isReusable
                && state.opened?.commits == count
            if !state.isKept { state.endSnapshot() }
        }
    }

    /// Ends a snapshot that no caller has; without waiting for a caller that has it now.
    func endKept() {
        state.withLockIfFree { if $0.isKept { $0.endSnapshot() } }
    }

    /// Runs `body` on the reads of this connection.
    ///
    /// - Throws: `StorageError`: `.gone` if the file was closed, or the error of `body`.
    package func use<Result>(
        _ body: (IndexReads) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        try use(beginsSnapshot: false, body)
    }

    private func use<Result>(
        beginsSnapshot: Bool,
        _ body: (IndexReads) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        try state.withLock { (state) throws(StorageError) in
            // Without `begin`, reads see the newest commit.
            if state.isKept { state.endSnapshot() }
            guard let reads = state.reads else {
                throw StorageError(.gone, "\(path) was closed")
            }
            if beginsSnapshot { state.isInSnapshot = true }
            do throws(StorageError) {
                return try body(reads)
            } catch {
                state.isReusable = false
                if beginsSnapshot { state.endSnapshot() }
                throw error
            }
        }
    }

    /// Bytes that the connection has allocated; the last known number while it is in use.
    var memoryBytes: Int {
        state.withLockIfFree { state in
            let bytes = state.reads?.connection.memoryBytes ?? 0
            memory.withLock { $0 = bytes }
        }
        return memory.withLock { $0 }
    }

    /// Whether the connection is open and no read of it failed.
    var isReusable: Bool { state.withLock { $0.isReusable && $0.reads != nil } }

    func close() { state.withLock { $0 = State() } }
}

extension IndexReader.State {
    /// The head of the kept snapshot, if nothing was counted since.
    mutating func resumeSnapshot(ifOf commits: UInt64) -> IndexHead? {
        guard isKept, let opened, opened.commits == commits else { return nil }
        isKept = false
        return opened.head
    }

    mutating func endSnapshot() {
        isKept = false
        opened = nil
        guard isInSnapshot, let reads else { return }
        isInSnapshot = false
        guard reads.connection.isInTransaction else { return }
        do throws(StorageError) {
            try reads.statements[.end].run()
        } catch {
            // Closing the connection ends the transaction.
            self.reads = nil
            isReusable = false
        }
    }
}

/// The read connections of an index file: opened on demand, at most `IndexSettings.readersMax`.
final class IndexReaderPool: Sendable {
    private struct State {
        var idle: [IndexReader] = []
        var inUse: [IndexReader] = []
        /// Connections that are being opened.
        var opening = 0
        var isClosed = false
    }

    private let path: String
    private let vfs: String?
    private let settings: IndexSettings
    private let commits = Guarded<UInt64>(0)
    private let state = Guarded(State())

    init(path: String, vfs: String?, settings: IndexSettings) {
        self.path = path
        self.vfs = vfs
        self.settings = settings
    }

    /// A reader that no other caller has; nil if the maximum number is in use.
    func acquire() throws(StorageError) -> IndexReader? {
        let isAllowed: Bool = try state.withLock { (state) throws(StorageError) in
            guard !state.isClosed else { throw StorageError(.gone, "\(path) was closed") }
            let isBelowMax = state.inUse.count + state.opening < settings.readersMax
            if isBelowMax { state.opening += 1 }
            return isBelowMax
        }
        guard isAllowed else { return nil }
        do throws(StorageError) {
            let reader: IndexReader
            if let idle = removeIdle() { reader = idle } else { reader = try open() }
            let isClosed = state.withLock { state in
                state.opening -= 1
                if !state.isClosed { state.inUse.append(reader) }
                return state.isClosed
            }
            if isClosed { reader.close() }
            return reader
        } catch {
            state.withLock { $0.opening -= 1 }
            throw error
        }
    }

    /// An idle reader for the next caller; nil if there is none.
    private func removeIdle() -> IndexReader? {
        while let idle = state.withLock({ $0.idle.popLast() }) {
            // The end of a kept snapshot may have failed, which ended the reader's use.
            if idle.isReusable { return idle }
            idle.close()
        }
        return nil
    }

    private func open() throws(StorageError) -> IndexReader {
        let connection = try SQLiteConnection(path: path, mode: .read, vfs: vfs)
        try connection.prepareForIndex(settings)
        return IndexReader(connection, commits: commits)
    }

    /// A commit begins: until its end no snapshot is kept, so that it can begin the WAL again.
    func beginCommit() {
        commits.withLock { $0 += 1 }
        endKept()
    }

    /// A commit has ended: no snapshot from before it is used for another caller.
    func endCommit() {
        commits.withLock { $0 += 1 }
    }

    /// Ends the snapshots that are kept for the next callers.
    func endKept() {
        for reader in state.withLock({ $0.idle }) { reader.endKept() }
    }

    /// Keeps the reader's connection for the next caller, unless it failed; its snapshot too, if it is
    /// of the newest commit.
    func release(_ reader: IndexReader) {
        reader.keepOrEnd()
        let isReusable = reader.isReusable
        let isKept = state.withLock { state in
            let wasInUse = state.inUse.contains { $0 === reader }
            state.inUse.removeAll { $0 === reader }
            guard wasInUse, isReusable, !state.isClosed else { return false }
            state.idle.append(reader)
            return true
        }
        if !isKept { reader.close() }
    }

    /// Whether a caller has a reader, or is about to get one.
    var areInUse: Bool { state.withLock { !$0.inUse.isEmpty || $0.opening > 0 } }

    func closeIdle() {
        let idle = state.withLock { exchange(&$0.idle, with: []) }
        for reader in idle { reader.close() }
    }

    /// Closes all connections; waits for calls that use them, not for their snapshots.
    func closeAll() {
        let all = state.withLock { state in
            let all = state.idle + state.inUse
            state = State(isClosed: true)
            return all
        }
        for reader in all { reader.close() }
    }

    var memoryBytes: Int {
        state.withLock { $0.idle + $0.inUse }.reduce(0) { $0 + $1.memoryBytes }
    }
}
