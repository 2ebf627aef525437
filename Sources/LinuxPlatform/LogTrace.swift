internal import Bytes
internal import Glibc
package import Seams

/// The log: one whole line for each event on standard error, with the time in UTC.
package struct LogTrace: Trace {
    package let threshold: Severity
    private let format: LogFormat
    private let descriptor: Int32
    private let rotation: LogRotation?
    private let node = Guarded<String?>(nil)

    package init(
        threshold: Severity = .info,
        format: LogFormat = .text,
        descriptor: Int32 = STDERR_FILENO,
        rotation: LogRotation? = nil
    ) {
        self.threshold = threshold
        self.format = format
        self.descriptor = descriptor
        self.rotation = rotation
    }

    /// A log that is appended to a file.
    ///
    /// - Throws: `DiskError` if the file cannot be opened for that.
    package init(appendingTo path: String) throws(DiskError) {
        let flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC
        let descriptor = Glibc.open(path, flags, PrivateFiles.fileMode)
        guard descriptor >= 0 else { throw SystemError.disk(errno, "append to", at: path) }
        self.init(descriptor: descriptor)
    }

    package func log(_ severity: Severity, _ module: String, message: String) {
        log(severity, module, bucket: nil, message: message)
    }

    package func log(_ severity: Severity, _ module: String, bucket: String?, message: String) {
        guard severity >= threshold else { return }
        let line = LogLine(
            wallNanoseconds: LinuxClock().wallNanoseconds(),
            severity: severity,
            component: module,
            node: node.withLock { $0 },
            bucket: bucket,
            message: message
        ).bytes(format)
        // One write for each line, so lines of several threads do not interleave. A failing log
        // must not stop the server, so errors are ignored.
        line.withUnsafeBytes { _ = write(descriptor, $0.baseAddress, $0.count) }
        rotation?.wrote(line.count)
    }

    /// Writes the time and the text, as a gateway announces its start.
    package func announce(_ text: String) {
        let line = LogLine.announcement(at: LinuxClock().wallNanoseconds(), text)
        line.withUnsafeBytes { _ = write(descriptor, $0.baseAddress, $0.count) }
        rotation?.wrote(line.count)
    }

    package func identify(node name: String) { node.withLock { $0 = name } }
}
