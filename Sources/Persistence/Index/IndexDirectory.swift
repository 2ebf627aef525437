package import Seams

/// The directory with the index files of one bucket: their names, and their removal.
///
/// ```
/// <signature>.sqlite                       and -wal, -shm while it is open
/// <signature>.sqlite.damaged-<seconds>     set aside
/// ```
///
/// - No call concerns a file that is open.
/// - A main file goes before its WAL: a WAL alone is ignored, while a main file without its WAL
///   could be a mixture of two commits.
package struct IndexDirectory: Sendable {
    package let path: String
    let disk: any Disk

    private static let suffix = ".sqlite"
    private static let companions = ["-wal", "-shm"]
    private static let damagedMark = ".damaged-"

    /// Creates the directory if it does not exist.
    ///
    /// - Throws: `StorageError` if it cannot be created.
    package init(path: String, disk: any Disk) throws(StorageError) {
        self.path = path
        self.disk = disk
        try storage { () throws(DiskError) in try disk.createDirectory(path) }
    }

    /// The path of an index's file.
    package func path(of signature: String) -> String {
        "\(path)/\(signature)\(IndexDirectory.suffix)"
    }

    /// Opens an index's file read-only, for tools; a node may have it open.
    ///
    /// - Throws: `StorageError`, as `IndexReader.inspect`.
    package func inspect(_ signature: String) throws(StorageError) -> IndexReader {
        try IndexReader.inspect(path: path(of: signature), vfs: disk.vfsName)
    }

    /// The signatures that have a file, sorted.
    ///
    /// - Throws: `StorageError` if the directory cannot be read.
    package func signatures() throws(StorageError) -> [String] {
        let names = try storage { () throws(DiskError) in try disk.list(path) }
        return names.compactMap { name in
            let signature = String(name.dropLast(IndexDirectory.suffix.count))
            return name == signature + IndexDirectory.suffix ? signature : nil
        }
    }

    /// Removes an index's file with its WAL; does nothing if there is none.
    ///
    /// - Throws: `StorageError` if a file cannot be removed; the call may be repeated.
    package func remove(_ signature: String) throws(StorageError) {
        let file = path(of: signature)
        for suffix in [""] + IndexDirectory.companions {
            try storage { () throws(DiskError) in try disk.remove(file + suffix) }
        }
    }

    /// Renames a file that cannot be used, with its WAL, so that a new one can be created.
    ///
    /// - Parameters:
    ///   - signature: The index's signature.
    ///   - now: Seconds since 1970, for the new name.
    /// - Throws: `StorageError` if the main file cannot be renamed; the call may be repeated.
    /// - Returns: The new path; nil if there was no file.
    package func setAside(_ signature: String, now: UInt64) throws(StorageError) -> String? {
        let file = path(of: signature)
        let aside = "\(file)\(IndexDirectory.damagedMark)\(now)"
        let names = try storage { () throws(DiskError) in try Set(disk.list(path)) }
        let name = signature + IndexDirectory.suffix
        var moved: String?
        if names.contains(name) {
            try storage { () throws(DiskError) in try disk.rename(file, to: aside) }
            moved = aside
        }
        for suffix in IndexDirectory.companions where names.contains(name + suffix) {
            try storage { () throws(DiskError) in
                if suffix == "-wal", moved != nil {
                    try disk.rename(file + suffix, to: aside + suffix)
                } else {
                    try disk.remove(file + suffix)
                }
            }
        }
        return moved
    }

    /// Removes every file of an index that is not among `signatures`, also those set aside.
    ///
    /// - Throws: `StorageError` if the directory cannot be read or a file not removed; the call may
    ///   be repeated.
    /// - Returns: The names of the removed files.
    @discardableResult
    package func removeAll(except signatures: Set<String>) throws(StorageError) -> [String] {
        let names = try storage { () throws(DiskError) in try disk.list(path) }
        // The shortest name of an index is its main file's, which goes first.
        let unknown = names.filter { name in
            let signature = name.prefix { $0 != "." }
            return !signatures.contains(String(signature))
                && name.dropFirst(signature.count).hasPrefix(IndexDirectory.suffix)
        }.sorted { ($0.count, $0) < ($1.count, $1) }
        for name in unknown {
            try storage { () throws(DiskError) in try disk.remove("\(path)/\(name)") }
        }
        return unknown
    }
}
