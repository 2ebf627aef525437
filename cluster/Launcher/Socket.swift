internal import Bytes
internal import Foundation

/// A blocking TCP connection to a node on this machine, with a timeout.
///
/// Plain system calls, because loading a networking library takes longer than most commands.
final class Socket {
    let descriptor: Int32

    /// Connects to a port of 127.0.0.1, where the launcher's nodes listen.
    init(port: Int, timeoutSeconds: Int = 10) throws(SocketError) {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC, 0)
        guard descriptor >= 0 else { throw SocketError("cannot make a socket: \(systemError())") }
        var timeout = timeval(tv_sec: timeoutSeconds, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, size)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, size)
        var yes: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, 4)

        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(UInt16(truncatingIfNeeded: port)).bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else {
            throw SocketError("cannot connect to 127.0.0.1:\(port): \(systemError())")
        }
    }

    deinit { close(descriptor) }

    func send(_ bytes: [UInt8]) throws(SocketError) {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                Foundation.send(
                    descriptor,
                    buffer.baseAddress.map { $0 + sent },
                    buffer.count - sent,
                    Int32(MSG_NOSIGNAL)
                )
            }
            guard count > 0 else { throw SocketError("cannot send: \(systemError())") }
            sent += count
        }
    }

    /// The next received bytes; empty if the other side has closed the connection.
    func receive() throws(SocketError) -> [UInt8] {
        var failure: Int32 = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: 64 << 10) { buffer, count in
            let received = recv(descriptor, buffer.baseAddress, buffer.count, 0)
            if received < 0 { failure = errno }
            count = max(0, received)
        }
        guard failure == 0 else { throw SocketError("no answer: \(systemError(failure))") }
        return bytes
    }
}

/// A connection that failed or broke.
struct SocketError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
