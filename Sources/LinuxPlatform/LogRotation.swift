internal import Bytes
internal import Glibc

/// Bounds the log file on standard error: when it has reached half of the limit, it is renamed to
/// `NAME.1`, in the place of the one before, and a new file takes its place.
///
/// The process rotates its own log, so no other program has to run, and a message of the runtime about
/// a crash is in the newest file too: the descriptor is replaced, not only the trace's file.
package final class LogRotation: Sendable {
    private let descriptor: Int32
    private let partBytesMax: Int
    private let bytes: Guarded<Int>

    /// Nil if the log is no file: a terminal, a pipe or a journal bounds itself.
    ///
    /// - Parameters:
    ///   - bytesMax: The most bytes that both files may have together, but for the last line.
    ///   - descriptor: The log's descriptor, opened to append.
    package init?(bytesMax: Int, descriptor: Int32 = STDERR_FILENO) {
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            return nil
        }
        self.descriptor = descriptor
        partBytesMax = bytesMax / 2
        bytes = Guarded(Int(status.st_size))
    }

    /// Counts a written line, and begins another file if this one is large enough.
    ///
    /// A failure must not stop the server: the file grows on, and the next attempt is after as many bytes.
    func wrote(_ count: Int) {
        bytes.withLock { bytes in
            bytes += count
            guard bytes >= partBytesMax else { return }
            bytes = 0
            rotate()
        }
    }

    private func rotate() {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let length = readlink("/proc/self/fd/\(descriptor)", &buffer, buffer.count)
        guard length > 0, length < buffer.count else { return }
        let path = String(decoding: buffer[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        var (open, named) = (stat(), stat())
        // A file that was deleted or moved has no name to continue under.
        guard fstat(descriptor, &open) == 0, stat(path, &named) == 0,
            open.st_ino == named.st_ino, open.st_dev == named.st_dev
        else { return }
        let flags = O_WRONLY | O_APPEND | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC
        let next = Glibc.open(path + ".new", flags, PrivateFiles.fileMode)
        guard next >= 0 else { return }
        if rename(path, path + ".1") == 0, rename(path + ".new", path) == 0 {
            dup2(next, descriptor)
        }
        close(next)
    }
}
