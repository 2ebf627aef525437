import Glibc
import Seams
import Testing

/// A blocking client that shares no code with the reactor.
final class TestSocket: Sendable {
    let descriptor: Int32

    init(to address: SocketAddress, receiveBufferBytes: Int32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        try #require(descriptor >= 0)
        var timeout = timeval(tv_sec: 30, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, size)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, size)
        if var bytes = receiveBufferBytes {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, 4)
        }
        var target = sockaddr_in()
        target.sin_family = sa_family_t(AF_INET)
        target.sin_port = address.port.bigEndian
        target.sin_addr.s_addr = inet_addr(address.host)
        let code = withUnsafePointer(to: &target) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        try #require(code == 0, "connect: error \(errno)")
    }

    deinit { Glibc.close(descriptor) }

    func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(
                    descriptor,
                    $0.baseAddress.map { $0 + sent },
                    bytes.count - sent,
                    Int32(MSG_NOSIGNAL)
                )
            }
            try #require(count > 0, "send: error \(errno)")
            sent += count
        }
    }

    /// Sends the bytes until the peer closes or the timeout ends.
    func offer(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    /// Sends the same bytes repeatedly until sending fails.
    func sendUntilRefused(_ bytes: [UInt8]) {
        var count = 1
        while count > 0 {
            count = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        }
    }

    /// Receives exactly `length` bytes; fewer only if the peer closed or the timeout ended.
    func receive(_ length: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: length)
        let count = bytes.withUnsafeMutableBytes {
            recv(descriptor, $0.baseAddress, length, Int32(MSG_WAITALL))
        }
        return Array(bytes.prefix(max(0, count)))
    }

    /// Receives and compares bytes; the description of the difference, or nil if they are equal.
    func mismatch(_ expected: [UInt8]) -> String? {
        let received = receive(expected.count)
        let code = errno
        guard received.count == expected.count else {
            return "\(received.count) of \(expected.count) bytes received, error \(code)"
        }
        // Compared as a whole first: comparing single bytes is slow in a sanitizer.
        guard received != expected else { return nil }
        let place = zip(received, expected).enumerated().first { $1.0 != $1.1 }?.offset ?? 0
        return "byte \(place) of \(expected.count) differs"
    }

    /// Whether the peer closes within 30 s; received bytes are discarded.
    func isClosedByPeer() -> Bool {
        var bytes = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = recv(descriptor, &bytes, bytes.count, 0)
            if count == 0 { return true }
            if count < 0 { return errno == ECONNRESET || errno == EPIPE }
        }
    }

    func endOutput() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Makes closing send a reset.
    func reset() {
        var option = linger(l_onoff: 1, l_linger: 0)
        let size = socklen_t(MemoryLayout<linger>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, size)
    }
}
