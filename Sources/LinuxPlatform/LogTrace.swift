internal import Bytes
internal import Glibc
package import Seams

/// The log: one whole line for each event on standard error, with the time in UTC.
package struct LogTrace: Trace {
    package let threshold: Severity
    private let descriptor: Int32
    private let rotation: LogRotation?

    package init(
        threshold: Severity = .info,
        descriptor: Int32 = STDERR_FILENO,
        rotation: LogRotation? = nil
    ) {
        self.threshold = threshold
        self.descriptor = descriptor
        self.rotation = rotation
    }

    package func log(_ severity: Severity, _ module: String, _ message: String) {
        guard severity >= threshold else { return }
        let now = LinuxClock().wallNanoseconds()
        let line = LogTrace.line(at: now, severity, module, message)
        // One write for each line, so lines of several threads do not interleave. A failing log
        // must not stop the server, so errors are ignored.
        line.withUnsafeBytes { _ = write(descriptor, $0.baseAddress, $0.count) }
        rotation?.wrote(line.count)
    }

    /// The line of an event, with its newline; control characters are escaped.
    static func line(
        at wallNanoseconds: UInt64,
        _ severity: Severity,
        _ module: String,
        _ message: String
    ) -> [UInt8] {
        var line = timestamp(wallNanoseconds)
        line.append(contentsOf: " \(label(severity)) \(module): ".utf8)
        for byte in message.utf8 {
            if byte >= 0x20 && byte != 0x7f {
                line.append(byte)
            } else {
                let digits = Array("0123456789abcdef".utf8)
                line.append(contentsOf: "\\x".utf8)
                line.append(digits[Int(byte >> 4)])
                line.append(digits[Int(byte & 15)])
            }
        }
        line.append(UInt8(ascii: "\n"))
        return line
    }

    private static func label(_ severity: Severity) -> StaticString {
        switch severity {
        case .debug: "debug"
        case .info: "info "
        case .warning: "warn "
        case .error: "error"
        case .fault: "fault"
        }
    }

    private static func timestamp(_ wallNanoseconds: UInt64) -> [UInt8] {
        var seconds = time_t(wallNanoseconds / 1_000_000_000)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        func digits(_ value: Int32, _ width: Int) -> String {
            let text = String(value)
            return String(repeating: "0", count: max(0, width - text.utf8.count)) + text
        }
        let date =
            "\(digits(parts.tm_year + 1_900, 4))-\(digits(parts.tm_mon + 1, 2))"
            + "-\(digits(parts.tm_mday, 2))"
        let time =
            "\(digits(parts.tm_hour, 2)):\(digits(parts.tm_min, 2)):\(digits(parts.tm_sec, 2))"
        let milliseconds = Int32(wallNanoseconds / 1_000_000 % 1_000)
        return Array("\(date)T\(time).\(digits(milliseconds, 3))Z".utf8)
    }
}
