import Glibc

/// A client that sends raw bytes, so that a test can also send what is no HTTP.
///
/// Its calls block, for 20 s at most.
final class RawClient {
    struct Answer {
        var line = ""
        var status = 0
        /// By lowercase name; of several fields the last.
        var headers: [String: String] = [:]
        var body: [UInt8] = []

        var text: String { String(decoding: body, as: UTF8.self) }
    }

    struct Failure: Error {
        let what: String
    }

    private let descriptor: Int32
    private(set) var received: [UInt8] = []

    /// Connects to a port on loopback; `receiveBytes` is the size of the kernel's buffer, nil for the default.
    ///
    /// - Throws: `Failure` if there is no connection.
    init(port: Int, receiveBytes: Int32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        if var receiveBytes {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBytes, 4)
        }
        var timeout = timeval(tv_sec: 20, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, size)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, size)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let code = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard code == 0 else { throw Failure(what: "no connection: \(errno)") }
    }

    deinit { close(descriptor) }

    func send(_ text: String) throws { try send(Array(text.utf8)) }

    func send(_ all: [UInt8]) throws {
        var bytes = all[...]
        while !bytes.isEmpty {
            let sent = bytes.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard sent > 0 else { throw Failure(what: "not sent: \(errno)") }
            bytes = bytes.dropFirst(sent)
        }
    }

    /// Sends what the socket accepts at once, until it accepts nothing for 200 ms; returns the bytes.
    func sendUntilFull(_ piece: [UInt8], atMost bytesMax: Int) -> Int {
        var total = 0
        while total < bytesMax {
            let sent = piece.withUnsafeBytes {
                let flags = Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)
                return Glibc.send(descriptor, $0.baseAddress, $0.count, flags)
            }
            if sent > 0 {
                total += sent
                continue
            }
            var state = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            if poll(&state, 1, 200) == 0 { break }
            if state.revents & Int16(POLLHUP | POLLERR) != 0 { break }
        }
        return total
    }

    /// One whole answer.
    func answer(toHead isHead: Bool = false) throws -> Answer {
        var answer = try head()
        if isHead || answer.status == 204 { return answer }
        if answer.headers["transfer-encoding"] == "chunked" {
            while let chunk = try chunk() { answer.body += chunk }
        } else {
            answer.body = try bytes(Int(answer.headers["content-length"] ?? "0") ?? 0)
        }
        return answer
    }

    func head() throws -> Answer {
        let text = String(decoding: try bytes(through: "\r\n\r\n"), as: UTF8.self)
        let lines = text.split(separator: "\r\n").map(String.init)
        var answer = Answer()
        answer.line = lines[0]
        answer.status = Int(lines[0].split(separator: " ")[1]) ?? 0
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            answer.headers[parts[0].lowercased()] = String(parts[1].drop { $0 == " " })
        }
        return answer
    }

    /// One chunk of a chunked body; nil at its end.
    func chunk() throws -> [UInt8]? {
        let line = String(decoding: try bytes(through: "\r\n"), as: UTF8.self)
        guard let count = Int(line, radix: 16) else { throw Failure(what: "chunk of \(line)") }
        let chunk = try bytes(count)
        _ = try bytes(2)
        return count == 0 ? nil : chunk
    }

    /// The next `count` bytes.
    func bytes(_ count: Int) throws -> [UInt8] {
        while received.count < count { try receive() }
        defer { received.removeFirst(count) }
        return Array(received.prefix(count))
    }

    /// The bytes before a text, which is removed too.
    func bytes(through text: String) throws -> [UInt8] {
        let mark = Array(text.utf8)
        while true {
            if let place = received.indices.first(where: { received[$0...].starts(with: mark) }) {
                let before = try bytes(place)
                _ = try bytes(mark.count)
                return before
            }
            try receive()
        }
    }

    /// Everything up to the server's close.
    func bytesToEnd() throws -> [UInt8] {
        do {
            while true { try receive() }
        } catch let failure as Failure where failure.what == "closed" {
            return try bytes(received.count)
        }
    }

    /// Whether the server closes the connection, by an end or a reset, before the client's timeout.
    func isClosed() -> Bool {
        do {
            while true { try receive() }
        } catch {
            return (error as? Failure)?.what == "closed"
        }
    }

    /// Shuts down the sending side.
    func endSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    private func receive() throws {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        if count == 0 || errno == ECONNRESET && count < 0 { throw Failure(what: "closed") }
        guard count > 0 else { throw Failure(what: "nothing received: \(errno)") }
        received += buffer.prefix(count)
    }
}
