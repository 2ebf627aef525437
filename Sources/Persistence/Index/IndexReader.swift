internal import Bytes

/// A read connection to an index file, with a snapshot of its own.
///
/// - From `begin` to `end`, all reads see the commit whose head `begin` returned, whatever is
///   committed meanwhile. The WAL cannot begin again from its start until `end`.
/// - May be used from any thread, by one at a time: a call waits for the call before it.
/// - After `IndexFile.close`, every call throws `.gone`.
package final class IndexReader: Sendable {
    struct State {
        var reads: IndexReads?
        var isInSnapshot = false
        /// Cleared after an error of the file: the connection is not used for another reader.
        var isReusable = true
    }

    private let path: String
    private let state: Guarded<State>
    private let memory = Guarded(0)

    init(_ connection: Connection) {
        path = connection.path
        state = Guarded(State(reads: IndexReads(connection)))
    }

    /// Opens a file of any identity read-only, for tools; a node may have it open.
    ///
    /// - Throws: `StorageError`: `.missing`, `.foreign` or `.newer` if it is not an index file that
    ///   this release reads, `.damaged`, or a disk error.
    package static func inspect(
        path: String,
        vfs: String?
    ) throws(StorageError) -> IndexReader {
        let connection = try Connection(path: path, mode: .read, vfs: vfs)
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
        end()
        return try use(beginsSnapshot: true) { (reads) throws(StorageError) in
            try reads.statements[.begin].run()
            return try reads.head()
        }
    }

    /// Ends the snapshot; does nothing without one.
    package func end() {
        state.withLock { $0.endSnapshot() }
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

    var isReusable: Bool { state.withLock { $0.isReusable } }

    func close() { state.withLock { $0 = State() } }
}

extension IndexReader.State {
    mutating func endSnapshot() {
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
final class IndexReaders: Sendable {
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
        let idle = state.withLock { $0.idle.popLast() }
        do throws(StorageError) {
            let reader: IndexReader
            if let idle { reader = idle } else { reader = try open() }
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

    private func open() throws(StorageError) -> IndexReader {
        let connection = try Connection(path: path, mode: .read, vfs: vfs)
        try connection.prepareForIndex(settings)
        return IndexReader(connection)
    }

    /// Ends the reader's snapshot and keeps its connection for the next caller, unless it failed.
    func release(_ reader: IndexReader) {
        reader.end()
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

    func closeIdle() {
        let idle = state.withLock { state in
            defer { state.idle = [] }
            return state.idle
        }
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
