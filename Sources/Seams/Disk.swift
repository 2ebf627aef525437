/// Directories, small files replaced whole, and the name of SQLite's file system.
///
/// Documents do not pass here: they go through SQLite, whose VFS is the deeper seam.
package protocol Disk: Sendable {
    /// SQLite's VFS to open databases with; nil for its default.
    var vfsName: String? { get }
    /// Creates a directory, and those above it.
    func createDirectory(_ path: String) throws(DiskError)
    /// The names in a directory, sorted; empty where there is none.
    func list(_ path: String) throws(DiskError) -> [String]
    /// The content of a small file, or nil where there is none.
    func read(_ path: String) throws(DiskError) -> [UInt8]?
    /// Replaces a small file as a whole: after a crash it has the old content or the new.
    func replace(_ path: String, with bytes: [UInt8]) throws(DiskError)
    /// Renames a file or directory and makes the renaming durable.
    func rename(_ path: String, to newPath: String) throws(DiskError)
    /// Removes a file, or a directory and all in it; nothing there is fine.
    func remove(_ path: String) throws(DiskError)
    /// Makes durable what is read in a file, also where a sync of it failed before: the kernel forgets
    /// what it could not write, and the next sync says that all is well, so every byte is written again
    /// as it is. Nobody may write the file meanwhile; nothing there is fine.
    func secure(_ path: String) throws(DiskError)
    /// Makes a file as long as this, if it is shorter, with zeros that are on disk.
    ///
    /// What is written over them later is there once its bytes are: a file that grows waits with
    /// each sync for the file system to take note of it, and that waits for all other files that
    /// grow. Where there is no room the file stays as it was; nothing there is fine.
    func fill(_ path: String, to bytes: UInt64) throws(DiskError)
    /// Takes the lock of a data directory for this process; false where another one holds it.
    func claim(_ path: String) throws(DiskError) -> Bool
    /// Bytes: the size of a file, or of all files in a directory; 0 where there is none.
    func size(_ path: String) throws(DiskError) -> UInt64
    /// Bytes: free for us, and in all, on the file system that holds `path`.
    func space(_ path: String) throws(DiskError) -> (free: UInt64, total: UInt64)
}

extension Disk {
    /// On a disk that keeps no book of where files are there is nothing to wait for.
    package func fill(_ path: String, to bytes: UInt64) throws(DiskError) {}
}

/// Why the disk did not do what it was asked.
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
    /// A sentence for an operator: what was tried, where, and what went wrong.
    package let description: String

    package init(code: Code, path: String, description: String) {
        self.code = code
        self.path = path
        self.description = description
    }
}
