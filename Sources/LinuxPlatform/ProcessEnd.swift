internal import Glibc

/// The last words of a program and its exit status.
package enum ProcessEnd {
    /// Writes a line to standard error.
    package static func report(_ line: String) { write(line + "\n", to: STDERR_FILENO) }

    /// Writes text to standard output.
    package static func print(_ text: String) { write(text, to: STDOUT_FILENO) }

    package static func exit(_ status: Int32) -> Never { Glibc.exit(status) }

    private static func write(_ text: String, to descriptor: Int32) {
        var text = text
        text.withUTF8 { bytes in
            // A reader that has gone away misses nothing.
            _ = Glibc.write(descriptor, bytes.baseAddress, bytes.count)
        }
    }
}
