internal import Bytes
package import Seams

/// `control.sqlite`: the durable state of the node's consensus member, and its seals.
///
/// The store does not interpret the Raft state, only stores numbers and bytes. One `commit` is one
/// transaction and one sync, whatever the number of changes: callers batch the changes that arrive
/// during a commit.
///
/// - When `commit` returns, an fsync has returned. When it throws, either all changes are stored or
///   none, and the next call reopens the file.
/// - A snapshot that is being received is staged separately; it replaces the current one only once
///   it is complete.
/// - A damaged row is an error, never a result.
/// - Used by one thread at a time: the starting thread, later the control lane's disk lane.
package final class ControlStore: Sendable {
    package let path: String
    private let disk: any Disk
    private let file: Guarded<ControlFile?>
    private let pagesMax = Guarded(0)

    /// Opens the file; creates it and its directory if they do not exist.
    ///
    /// - Throws: `StorageError`: `.foreign` or `.otherFormat` if the file is not a control file of
    ///   this format, `.damaged`, or a disk error.
    package init(disk: any Disk, directory: String) throws(StorageError) {
        try storage { () throws(DiskError) in try disk.createDirectory(directory) }
        path = "\(directory)/control.sqlite"
        self.disk = disk
        file = Guarded(nil)
        try open { _ in }
    }

    // MARK: Writing

    /// Stores all changes in one transaction, in this order.
    ///
    /// - Throws: `StorageError`: `.full` if nothing was stored; after other codes it is unknown
    ///   whether the changes were stored, and the same commit may be repeated.
    package func commit(_ changes: [ControlChange]) throws(StorageError) {
        try open { file throws(StorageError) in try file.commit(changes) }
    }

    /// Replaces hard state, log and snapshot by a new history that starts with `snapshot`.
    ///
    /// `facts` (named values; nil removes one) are stored in the same transaction; other stored
    /// facts stay. Seals are kept only if the buckets are kept: when survivors begin a new epoch.
    ///
    /// - Throws: `StorageError`, as `commit`.
    package func begin(
        with snapshot: ControlSnapshot,
        hardState: ControlHardState,
        facts: [(name: String, bytes: [UInt8]?)] = [],
        keepsSeals: Bool = false
    ) throws(StorageError) {
        try open { file throws(StorageError) in
            try file.begin(with: snapshot, hardState, facts, keepsSeals: keepsSeals)
        }
    }

    // MARK: Reading

    /// Reads hard state, log and snapshot head; nil if no history has begun.
    ///
    /// - Throws: `StorageError`: `.damaged` if a row is missing or does not match its checksum, or
    ///   a disk error.
    package func load() throws(StorageError) -> ControlContents? {
        try open { file throws(StorageError) in try file.load() }
    }

    /// The current snapshot; nil if no history has begun.
    ///
    /// - Throws: `StorageError`, as `load`.
    package func snapshot() throws(StorageError) -> ControlSnapshot? {
        try open { file throws(StorageError) in try file.snapshot() }
    }

    /// The seals of a bucket, sorted by vBucket; empty if there are none.
    ///
    /// - Throws: `StorageError`, as `load`.
    package func seals(ofBucket uuid: String) throws(StorageError) -> [ControlSeal] {
        try open { file throws(StorageError) in try file.seals(uuid) }
    }

    /// The value stored under `name`; nil if there is none.
    ///
    /// - Throws: `StorageError`, as `load`.
    package func fact(_ name: String) throws(StorageError) -> [UInt8]? {
        try open { file throws(StorageError) in try file.fact(name) }
    }

    /// The value stored under `fact` in a directory's control file, read without a change; a server may
    /// have the file open.
    ///
    /// The value is nil if the fact is not stored. After a clean stop the file has no WAL, and the read
    /// makes none: the server could not open the WAL of another user later.
    ///
    /// - Throws: `StorageError` if it is not a control file of this format, as `load` otherwise.
    package static func fact(
        _ fact: String,
        in directory: String,
        disk: any Disk
    ) throws(StorageError) -> [UInt8]? {
        let name = "control.sqlite"
        let names = try storage { () throws(DiskError) in try disk.list(directory) }
        guard names.contains(name) else { return nil }
        let path = "\(directory)/\(name)"
        let isOpen = names.contains(name + "-wal")
        let mode: SQLiteConnection.Mode = isOpen ? .read : .readClosed
        let connection = try SQLiteConnection(path: path, mode: mode, vfs: disk.vfsName)
        try connection.requireFormat(
            ControlSchema.number,
            of: ControlSchema.applicationID,
            "the control file"
        )
        return try ControlFile.fact(fact, connection)
    }

    // MARK: The file

    /// Copies the WAL into the file and closes it; the next call reopens it.
    ///
    /// - Throws: `StorageError` if the WAL cannot be copied; the file is closed anyway.
    package func close() throws(StorageError) {
        try file.withLock { file throws(StorageError) in
            defer { file = nil }
            try file?.connection.checkpoint(.truncate)
        }
    }

    /// Limits the file to `pages`, to imitate a full disk; 0 for no limit.
    ///
    /// - Throws: `StorageError` if the file cannot be opened.
    package func limit(pages: Int) throws(StorageError) {
        pagesMax.withLock { $0 = pages }
        try open { file throws(StorageError) in try file.limit(pages: pages) }
    }

    private func open<Result>(
        _ body: (ControlFile) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        try file.withLock { file throws(StorageError) in
            do throws(StorageError) {
                if let file { return try body(file) }
                let opened = try ControlFile(path: path, disk: disk)
                try opened.limit(pages: pagesMax.withLock { $0 })
                file = opened
                return try body(opened)
            } catch {
                // After an error the handle is not used again: its page cache may be wrong.
                file = nil
                throw addingAdvice(to: error)
            }
        }
    }

    /// Adds advice for the operator to SQLite's own errors about a damaged file.
    private func addingAdvice(to error: StorageError) -> StorageError {
        guard error.code == .damaged, !error.description.hasPrefix("\(path) is damaged") else {
            return error
        }
        return ControlSchema.damage(path, error.description)
    }
}
