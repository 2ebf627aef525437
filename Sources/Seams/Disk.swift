/// Directories, small files that are replaced as a whole, and SQLite's VFS.
///
/// Documents are not written through this protocol but through SQLite, whose VFS is a seam as well.
package protocol Disk: Sendable {
    /// The name of the VFS to open SQLite databases with; nil for the default.
    var vfsName: String? { get }
    /// Creates a directory and its missing parents; no error if it exists.
    ///
    /// - Throws: `DiskError` if it cannot be created, for example because a file has that name.
    func createDirectory(_ path: String) throws(DiskError)
    /// The names in a directory, sorted; empty if there is no such directory.
    ///
    /// - Throws: `DiskError` if the directory cannot be read.
    func list(_ path: String) throws(DiskError) -> [String]
    /// The content of a small file; nil if there is none.
    ///
    /// - Throws: `DiskError` if the file cannot be read.
    func read(_ path: String) throws(DiskError) -> [UInt8]?
    /// Replaces a small file atomically: after a crash it has either the old content or the new.
    ///
    /// - Throws: `DiskError` if the file cannot be written: `full` if there is no room.
    func replace(_ path: String, with bytes: [UInt8]) throws(DiskError)
    /// Renames a file or directory durably.
    ///
    /// - Throws: `DiskError` if it cannot be renamed or synced.
    func rename(_ path: String, to newPath: String) throws(DiskError)
    /// Removes a file, or a directory and all in it; no error if there is none.
    ///
    /// - Throws: `DiskError` if it cannot be removed.
    func remove(_ path: String) throws(DiskError)
    /// Makes the present content of a file durable, even if a sync of it has failed before.
    ///
    /// After a failed write the kernel may drop the pages, and the next sync reports success.
    /// Therefore every byte is read and written again. No component may write the file meanwhile.
    /// No error if there is no such file.
    ///
    /// - Throws: `DiskError` if the file cannot be read, written or synced.
    func rewriteDurably(_ path: String) throws(DiskError)
    /// Extends a file to `bytes` with zeros that are on disk, if it is shorter.
    ///
    /// Later syncs of writes within that length only write data. A sync of a file that has grown
    /// also waits for the file system's journal, which waits for all other growing files. If there
    /// is no room, the file stays as it was. No error if there is no such file.
    ///
    /// - Throws: `DiskError` if the file cannot be extended: `full` if there is no room.
    func preallocate(_ path: String, to bytes: UInt64) throws(DiskError)
    /// Withholds a data directory and everything in it from the machine's other users, and acquires
    /// its lock for this process; false if another process holds it.
    ///
    /// - Throws: `DiskError` if the lock file cannot be opened, or if other users could have changed
    ///   the files, or can read them in spite of their modes; then with the command that corrects it.
    func lockDirectory(_ path: String) throws(DiskError) -> Bool
    /// The size in bytes of a file, or of all files in a directory; 0 if there is none.
    ///
    /// - Throws: `DiskError` if the size cannot be read.
    func size(_ path: String) throws(DiskError) -> UInt64
    /// The bytes available to this process, and in total, on the file system of `path`.
    ///
    /// - Throws: `DiskError` if the file system cannot be queried.
    func space(_ path: String) throws(DiskError) -> (free: UInt64, total: UInt64)
}

extension Disk {
    /// Does nothing, for disks whose syncs do not wait for metadata.
    package func preallocate(_ path: String, to bytes: UInt64) throws(DiskError) {}
}

/// Why a call of `Disk` failed.
package struct DiskError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        case full
        case denied
        case missing
        case notADirectory
        case failed
    }

    package let code: Code
    package let path: String
    /// A sentence for an operator: what failed, at which path, and why.
    package let description: String

    package init(code: Code, path: String, description: String) {
        self.code = code
        self.path = path
        self.description = description
    }
}
