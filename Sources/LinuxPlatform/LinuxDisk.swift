internal import Bytes
internal import CLinux
internal import Glibc
package import Seams

/// The file system: directories, atomically replaced small files, and the data directory's lock.
///
/// - `replace` and `rename` are durable when they return: the file and its directory are fsynced.
///   After a crash a `NAME.tmp` may remain; the next `replace` overwrites it.
/// - A lock is held until this object is deinitialized or the process ends; the kernel releases it
///   even after `kill -9`.
package final class LinuxDisk: Disk {
    private let locks = Guarded<[Int32]>([])
    /// Serializes `replace`: two calls for one file would write the same temporary file.
    private let replacing = Lock()

    package init() {}

    deinit {
        locks.withLock { for descriptor in $0 { Glibc.close(descriptor) } }
        replacing.destroy()
    }

    package var vfsName: String? { nil }

    /// Creates a directory and its missing parents, durably; does nothing if it exists.
    ///
    /// - Throws: `DiskError` if the path is not a directory or cannot be created.
    package func createDirectory(_ path: String) throws(DiskError) {
        if mkdir(path, PrivateFiles.directoryMode) == 0 { return try syncParent(of: path) }
        switch errno {
        case EEXIST:
            guard LinuxDisk.isDirectory(path) else {
                throw SystemError.disk(ENOTDIR, "create the directory", at: path)
            }
        case ENOENT where !LinuxDisk.parent(of: path).isEmpty:
            try createDirectory(LinuxDisk.parent(of: path))
            guard mkdir(path, PrivateFiles.directoryMode) == 0 || errno == EEXIST else {
                throw SystemError.disk(errno, "create the directory", at: path)
            }
            try syncParent(of: path)
        case let code:
            throw SystemError.disk(code, "create the directory", at: path)
        }
    }

    /// The sorted names in a directory; empty if it does not exist.
    ///
    /// - Throws: `DiskError` if the directory cannot be read.
    package func list(_ path: String) throws(DiskError) -> [String] {
        guard let directory = opendir(path) else {
            if errno == ENOENT { return [] }
            throw SystemError.disk(errno, "list", at: path)
        }
        defer { closedir(directory) }
        var names: [String] = []
        while true {
            errno = 0
            guard let entry = readdir(directory) else { break }
            let name = withUnsafePointer(to: &entry.pointee.d_name) { tuple in
                tuple.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != "." && name != ".." { names.append(name) }
        }
        try check(errno == 0, "list", at: path)
        return names.sorted()
    }

    /// The content of a file; nil if it does not exist.
    ///
    /// - Throws: `DiskError` if the file cannot be read.
    package func read(_ path: String) throws(DiskError) -> [UInt8]? {
        guard let descriptor = try openIfPresent(path, O_RDONLY, attempt: "read") else {
            return nil
        }
        defer { Glibc.close(descriptor) }
        var content: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0 && errno == EINTR { continue }
            try check(count >= 0, "read", at: path)
            if count == 0 { return content }
            content.append(contentsOf: chunk[..<count])
        }
    }

    /// Replaces the content of a file atomically and durably.
    ///
    /// - Throws: `DiskError` if the file cannot be written or synced.
    package func replace(_ path: String, with bytes: [UInt8]) throws(DiskError) {
        replacing.acquire()
        defer { replacing.release() }
        let temporary = path + ".tmp"
        do throws(DiskError) {
            try write(bytes, to: temporary)
            try check(Glibc.rename(temporary, path) == 0, "replace", at: path)
        } catch {
            unlink(temporary)
            throw error
        }
        try syncParent(of: path)
    }

    /// Renames a file or directory durably.
    ///
    /// - Throws: `DiskError` if the path does not exist or cannot be renamed.
    package func rename(_ path: String, to newPath: String) throws(DiskError) {
        guard Glibc.rename(path, newPath) == 0 else {
            throw SystemError.disk(errno, "rename to \(newPath) the path", at: path)
        }
        try syncParent(of: newPath)
        if LinuxDisk.parent(of: path) != LinuxDisk.parent(of: newPath) {
            try syncParent(of: path)
        }
    }

    /// Removes a file, or a directory with its content; does nothing if it does not exist.
    ///
    /// - Throws: `DiskError` if something cannot be removed.
    package func remove(_ path: String) throws(DiskError) {
        guard unlink(path) != 0 else { return try syncParent(of: path) }
        switch errno {
        case ENOENT: return
        case EISDIR: break
        case let code: throw SystemError.disk(code, "remove", at: path)
        }
        for name in try list(path) { try remove(path + "/" + name) }
        try check(rmdir(path) == 0 || errno == ENOENT, "remove", at: path)
        try syncParent(of: path)
    }

    /// Rewrites a file in place and syncs it; does nothing if it does not exist.
    ///
    /// - Throws: `DiskError` if the file cannot be read, written or synced.
    package func rewriteDurably(_ path: String) throws(DiskError) {
        guard let descriptor = try openIfPresent(path, O_RDWR, attempt: "write again") else {
            return
        }
        defer { Glibc.close(descriptor) }
        var buffer = [UInt8](repeating: 0, count: 256 << 10)
        var offset = 0
        while true {
            let count = buffer.withUnsafeMutableBytes {
                LinuxDisk.rewrite(descriptor, $0, at: offset)
            }
            try check(count >= 0, "write again", at: path)
            if count == 0 { break }
            offset += count
        }
        try check(fsync(descriptor) == 0, "sync", at: path)
        try syncParent(of: path)
    }

    /// Reads a chunk at `offset` and writes the same bytes to the same place.
    ///
    /// - Returns: The number of bytes, 0 at the end of the file, or -1 with errno.
    private static func rewrite(
        _ descriptor: Int32,
        _ buffer: UnsafeMutableRawBufferPointer,
        at offset: Int
    ) -> Int {
        let count = pread(descriptor, buffer.baseAddress, buffer.count, off_t(offset))
        if count < 0, errno == EINTR { return rewrite(descriptor, buffer, at: offset) }
        guard count > 0, let start = buffer.baseAddress else { return count }
        var written = 0
        while written < count {
            let place = off_t(offset + written)
            let done = pwrite(descriptor, start + written, count - written, place)
            if done < 0, errno == EINTR { continue }
            guard done > 0 else { return -1 }
            written += done
        }
        return count
    }

    /// Extends a file with zeros to at least `bytes`; does nothing if it does not exist.
    ///
    /// - Throws: `DiskError` if the file cannot be extended.
    package func preallocate(_ path: String, to bytes: UInt64) throws(DiskError) {
        guard let descriptor = try openIfPresent(path, O_WRONLY, attempt: "extend") else { return }
        defer { Glibc.close(descriptor) }
        var status = stat()
        try check(fstat(descriptor, &status) == 0, "extend", at: path)
        let zeros = [UInt8](repeating: 0, count: 256 << 10)
        var end = Int(status.st_size)
        while end < Int(bytes) {
            // Not fallocate: writing to the extents that it reserves changes metadata again.
            let count = pwrite(descriptor, zeros, min(zeros.count, Int(bytes) - end), off_t(end))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                return try truncateAfterFailure(descriptor, status.st_size, at: path)
            }
            end += count
        }
        try check(fsync(descriptor) == 0, "extend", at: path)
    }

    /// Truncates a file to its size before a failed extension, which frees the space again.
    ///
    /// - Throws: `DiskError`, always: the extension's error from errno, or the truncation's.
    private func truncateAfterFailure(
        _ descriptor: Int32,
        _ size: off_t,
        at path: String
    ) throws(DiskError) {
        let error = SystemError.disk(errno, "extend", at: path)
        try check(ftruncate(descriptor, size) == 0, "cut", at: path)
        throw error
    }

    /// Withholds a data directory from other users and locks it; false if another process or disk has
    /// locked it.
    ///
    /// - Throws: `DiskError` if the lock file cannot be opened or locked, or as `PrivateFiles`.
    package func lockDirectory(_ path: String) throws(DiskError) -> Bool {
        try PrivateFiles.withhold(path)
        let file = path + "/lock"
        let descriptor = open(file, O_RDWR | O_CREAT | O_CLOEXEC, PrivateFiles.fileMode)
        try check(descriptor >= 0, "lock", at: file)
        // Not fcntl: its locks vanish when anything in this process closes the same file.
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let code = errno
            if code == EINTR { continue }
            Glibc.close(descriptor)
            if code == EWOULDBLOCK { return false }
            throw SystemError.disk(code, "lock", at: file)
        }
        // The process id informs operators; nothing depends on it.
        let note = Array("\(getpid())\n".utf8)
        if ftruncate(descriptor, 0) == 0 { _ = pwrite(descriptor, note, note.count, 0) }
        locks.withLock { $0.append(descriptor) }
        return true
    }

    /// The bytes of a file, or of all files of a directory; 0 if it does not exist.
    ///
    /// - Throws: `DiskError` if the path cannot be read.
    package func size(_ path: String) throws(DiskError) -> UInt64 {
        var status = stat()
        guard lstat(path, &status) == 0 else {
            if errno == ENOENT { return 0 }
            throw SystemError.disk(errno, "measure", at: path)
        }
        guard status.st_mode & S_IFMT == S_IFDIR else { return UInt64(status.st_size) }
        var sum: UInt64 = 0
        for name in try list(path) { sum += try size(path + "/" + name) }
        return sum
    }

    /// The free and total bytes of the path's file system.
    ///
    /// - Throws: `DiskError` if the file system cannot be measured.
    package func space(_ path: String) throws(DiskError) -> (free: UInt64, total: UInt64) {
        var status = statvfs()
        try check(statvfs(path, &status) == 0, "measure the file system of", at: path)
        let unit = UInt64(status.f_frsize)
        return (free: UInt64(status.f_bavail) * unit, total: UInt64(status.f_blocks) * unit)
    }

    private func write(_ bytes: [UInt8], to path: String) throws(DiskError) {
        let access = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC
        let descriptor = open(path, access, PrivateFiles.fileMode)
        try check(descriptor >= 0, "write", at: path)
        defer { Glibc.close(descriptor) }
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                buffer.baseAddress.map {
                    Glibc.write(descriptor, $0 + written, buffer.count - written)
                } ?? 0
            }
            if count < 0 && errno == EINTR { continue }
            try check(count >= 0, "write", at: path)
            written += count
        }
        try check(fsync(descriptor) == 0, "write", at: path)
    }

    /// Makes a name durable by an fsync of its directory.
    ///
    /// - Throws: `DiskError` if the directory cannot be opened or synced.
    private func syncParent(of path: String) throws(DiskError) {
        let parent = LinuxDisk.parent(of: path)
        let directory = parent.isEmpty ? (path.hasPrefix("/") ? "/" : ".") : parent
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        try check(descriptor >= 0, "open", at: directory)
        defer { Glibc.close(descriptor) }
        try check(fsync(descriptor) == 0, "sync", at: directory)
    }

    /// Opens a file; nil if there is none.
    ///
    /// - Throws: `DiskError` if it cannot be opened.
    private func openIfPresent(
        _ path: String,
        _ access: Int32,
        attempt: String
    ) throws(DiskError) -> Int32? {
        let descriptor = open(path, access | O_CLOEXEC)
        if descriptor < 0, errno == ENOENT { return nil }
        try check(descriptor >= 0, attempt, at: path)
        return descriptor
    }

    /// - Throws: `DiskError` of `errno` if the last system call failed.
    private func check(
        _ hasSucceeded: Bool,
        _ attempt: String,
        at path: String
    ) throws(DiskError) {
        if !hasSucceeded { throw SystemError.disk(errno, attempt, at: path) }
    }

    private static func isDirectory(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }

    /// The path without its last component; empty if there is only one component.
    private static func parent(of path: String) -> String {
        var trimmed = path[...]
        while trimmed.count > 1 && trimmed.last == "/" { trimmed.removeLast() }
        guard let slash = trimmed.lastIndex(of: "/") else { return "" }
        var parent = trimmed[..<slash]
        while parent.last == "/" { parent.removeLast() }
        return String(parent)
    }
}
