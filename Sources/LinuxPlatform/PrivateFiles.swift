internal import Glibc
package import Seams

/// Withholds this process's files from the machine's other users.
///
/// Data directories have keys: the administrator's SCRAM keys and the cluster's secret. Three layers
/// withhold them. The process's mask (`setProcessMask`) covers files that libraries create, for
/// example SQLite. The modes below are those of files that this module creates. `withhold` corrects
/// the modes of files that exist already, for example those of a restored backup.
///
/// - A tree is checked before the first mode is changed: a directory that was named by mistake stays
///   as it was.
/// - Parents are not checked. A user who may rename the data directory cannot read it, and cannot put
///   another one in its place: that one would belong to that user, which `withhold` refuses.
package enum PrivateFiles {
    package static let fileMode: UInt32 = 0o600
    package static let directoryMode: UInt32 = 0o700
    private static let modeBits: mode_t = 0o7777
    private static let foreignWriteBits: mode_t = 0o022

    /// Sets the mask of this process and its children: files without an explicit mode are 0600,
    /// directories 0700.
    package static func setProcessMask() { umask(0o077) }

    /// Checks that no other user may replace the files of a directory.
    ///
    /// - Throws: `DiskError` if the directory belongs to another user, or other users may write it;
    ///   the description has the command that corrects it.
    package static func check(directory path: String) throws(DiskError) {
        var status = stat()
        guard stat(path, &status) == 0 else { throw SystemError.disk(errno, "inspect", at: path) }
        try check(status, path, of: path)
    }

    /// Withholds a directory and everything in it from other users.
    ///
    /// - Throws: `DiskError` if a path belongs to another user, is a symbolic link, or is a directory
    ///   that other users may write; then no mode was changed. Also if a mode cannot be changed.
    package static func withhold(_ root: String) throws(DiskError) {
        let disk = LinuxDisk()
        var open: [(path: String, mode: mode_t)] = []
        var pending = [root]
        while let path = pending.popLast() {
            var status = stat()
            // An operator may set the data directory by a link; inside, links lead to unknown files.
            guard (path == root ? stat(path, &status) : lstat(path, &status)) == 0 else {
                // A server that uses the directory may remove files meanwhile.
                if errno == ENOENT { continue }
                throw SystemError.disk(errno, "inspect", at: path)
            }
            try check(status, path, of: root)
            let isDirectory = status.st_mode & S_IFMT == S_IFDIR
            let mode = isDirectory ? directoryMode : fileMode
            if status.st_mode & modeBits != mode { open.append((path, mode)) }
            guard isDirectory else { continue }
            for name in try disk.list(path) { pending.append(path + "/" + name) }
        }
        for (path, mode) in open {
            guard chmod(path, mode) == 0 || errno == ENOENT else {
                throw SystemError.disk(errno, "change the mode of", at: path)
            }
        }
    }

    private static func check(
        _ status: stat,
        _ path: String,
        of root: String
    ) throws(DiskError) {
        let cause: String
        let cure: String
        if status.st_uid != geteuid() {
            cause =
                "\(path) belongs to user \(status.st_uid), and this process runs as user "
                + "\(geteuid()): user \(status.st_uid) could read and replace the files"
            cure = "run the program as that user, or run: chown -R \(geteuid()) \(quoted(root))"
        } else if status.st_mode & S_IFMT == S_IFLNK {
            cause = "\(path) is a symbolic link, and files that it names are not protected"
            cure = "mount the other file system at that path, then run: rm \(quoted(path))"
        } else if status.st_mode & S_IFMT == S_IFDIR, status.st_mode & foreignWriteBits != 0 {
            cause = "other users may write the directory \(path) and replace its files"
            cure = "if all its files are yours, run: chmod -R go-rwx \(quoted(root))"
        } else {
            return
        }
        throw DiskError(code: .denied, path: path, description: "\(cause); \(cure)")
    }

    /// A path as one word of a shell command.
    private static func quoted(_ path: String) -> String {
        let isPlain = path.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "/"), UInt8(ascii: "."),
                UInt8(ascii: "-"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        guard !isPlain else { return path }
        var word = "'"
        for character in path { word += character == "'" ? "'\\''" : String(character) }
        return word + "'"
    }
}
