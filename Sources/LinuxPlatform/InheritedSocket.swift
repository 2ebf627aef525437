package import Bytes
internal import CLinux
internal import Glibc

/// A stream socket that a process got from its parent; reading and writing wait.
package struct InheritedSocket {
    package let descriptor: Int32

    /// Nil unless `descriptor` is a stream socket.
    package init?(descriptor: Int32) {
        guard divan_is_stream_socket(descriptor) != 0 else { return nil }
        self.descriptor = descriptor
    }

    /// Waits for bytes and appends at most `bytesMax` to `output`.
    ///
    /// - Returns: Whether there were some; false when the other end has closed or failed.
    package func read(into output: ByteWriter, bytesMax: Int) -> Bool {
        let start = output.count
        let place = output.claim(bytesMax)
        while true {
            let count = Glibc.read(descriptor, place, bytesMax)
            if count < 0, errno == EINTR { continue }
            output.truncate(to: start + max(count, 0))
            return count > 0
        }
    }

    /// Writes all bytes.
    ///
    /// - Returns: Whether the other end accepted them.
    package func write(_ view: ByteView) -> Bool {
        var rest = view
        while !rest.isEmpty {
            let count = Glibc.send(descriptor, rest.start, rest.count, Int32(MSG_NOSIGNAL))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }
}
