internal import Bytes
package import Seams

/// `control.sqlite`: what a node may never forget of the order it agreed on.
///
/// It knows nothing of Raft, only of numbers and bytes. One `commit` is one transaction and one
/// sync, however many changes it carries: whoever has more to keep meanwhile gathers it.
///
/// - When `commit` returns, an fsync has returned; when it throws, none or all of it is there, and
///   the file is opened afresh by the next call.
/// - A snapshot that is being received lies apart and takes nothing's place until it is whole.
/// - What is not what was written is refused, never answered.
/// - Used by one thread at a time: the control lane's own disk lane, or the start before it.
package final class ControlStore: Sendable {
    package let path: String
    private let disk: any Disk
    private let file: Guarded<ControlFile?>
    private let pagesMax = Guarded(0)

    /// Opens the file, and makes it where there is none.
    package init(disk: any Disk, directory: String) throws(StorageError) {
        try storage { () throws(DiskError) in try disk.createDirectory(directory) }
        path = "\(directory)/control.sqlite"
        self.disk = disk
        file = Guarded(nil)
        try open { _ in }
    }

    // MARK: Keeping

    /// Keeps all changes together, in this order.
    package func commit(_ changes: [ControlChange]) throws(StorageError) {
        try open { file throws(StorageError) in try file.commit(changes) }
    }

    /// Forgets everything but `facts`, and begins a history with a snapshot.
    ///
    /// Seals stay only where the buckets do: when survivors begin a new epoch.
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

    /// Nil where no history has begun.
    package func load() throws(StorageError) -> ControlContents? {
        try open { file throws(StorageError) in try file.load() }
    }

    /// The newest whole snapshot; nil where no history has begun.
    package func snapshot() throws(StorageError) -> ControlSnapshot? {
        try open { file throws(StorageError) in try file.snapshot() }
    }

    /// Sorted by vBucket.
    package func seals(ofBucket uuid: String) throws(StorageError) -> [ControlSeal] {
        try open { file throws(StorageError) in try file.seals(uuid) }
    }

    package func fact(_ name: String) throws(StorageError) -> [UInt8]? {
        try open { file throws(StorageError) in try file.fact(name) }
    }

    // MARK: The file

    /// Copies the WAL into the file and closes it; the next call opens it again.
    package func close() throws(StorageError) {
        try file.withLock { file throws(StorageError) in
            defer { file = nil }
            try file?.connection.checkpoint(.truncate)
        }
    }

    /// Bounds the file, as a full disk would; 0 for no bound.
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
                // After an error a handle is not trusted again: its page cache may lie.
                file = nil
                throw explained(error)
            }
        }
    }

    /// SQLite says that a file is no database; an operator needs to know what follows from it.
    private func explained(_ error: StorageError) -> StorageError {
        guard error.code == .damaged, !error.description.hasPrefix("\(path) is damaged") else {
            return error
        }
        return ControlSchema.damage(path, error.description)
    }
}
