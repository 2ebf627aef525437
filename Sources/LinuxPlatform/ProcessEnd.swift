internal import Glibc

/// The output and the exit status of a program that has no log.
package enum ProcessEnd {
    /// Writes a line to standard error.
    package static func report(_ line: String) { write(line + "\n", to: STDERR_FILENO) }

    /// Writes text to standard output.
    package static func print(_ text: String) { write(text, to: STDOUT_FILENO) }

    package static func exit(_ status: Int32) -> Never { Glibc.exit(status) }

    private static func write(_ text: String, to descriptor: Int32) {
        var text = text
        text.withUTF8 { bytes in
            // If the reader has closed, there is no better place to report that.
            _ = Glibc.write(descriptor, bytes.baseAddress, bytes.count)
        }
    }
}
