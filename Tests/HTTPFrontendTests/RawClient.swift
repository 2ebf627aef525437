import Foundation

/// An HTTP client that sends raw bytes, so that a test can also send malformed requests.
///
/// Its calls block; the tests run them on a separate thread, not on one of the server's.
final class RawClient {
    struct Response: Sendable {
        /// The first line as received, without its end.
        var statusLine = ""
        /// Of the first line: `HTTP/1.1`.
        var version = ""
        var status = 0
        /// By lowercase name.
        var headers: [String: String] = [:]
        var body: [UInt8] = []

        var text: String { String(decoding: body, as: UTF8.self) }

        var json: Any? {
            try? JSONSerialization.jsonObject(with: Data(body), options: .fragmentsAllowed)
        }

        var object: [String: Any] { json as? [String: Any] ?? [:] }
    }

    struct Failure: Error {
        let what: String
    }

    private let descriptor: Int32
    private var received: [UInt8] = []
    /// The trailer's lines after the last chunked body.
    private(set) var trailer: [String] = []

    /// Connects to a port on loopback; `receiveBytes` is the size of the kernel's buffer for received
    /// bytes, nil for the default.
    ///
    /// - Throws: `Failure` if there is no connection.
    init(port: UInt16, timeoutSeconds: Int = 10, receiveBytes: Int32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        if var receiveBytes {
            let size = socklen_t(MemoryLayout<Int32>.size)
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBytes, size)
        }
        var timeout = timeval(tv_sec: timeoutSeconds, tv_usec: 0)
        setsockopt(
            descriptor,
            SOL_SOCKET,
            SO_RCVTIMEO,
            &timeout,
            socklen_t(MemoryLayout<timeval>.size)
        )
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
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
                Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard sent > 0 else { throw Failure(what: "not sent: \(errno)") }
            bytes = bytes.dropFirst(sent)
        }
    }

    /// One whole response.
    func response(toHead isHead: Bool = false) throws -> Response {
        var response = try head()
        if isHead { return response }
        if response.headers["transfer-encoding"] == "chunked" {
            while let chunk = try chunk() { response.body += chunk }
        } else {
            let length = Int(response.headers["content-length"] ?? "0") ?? 0
            response.body = try receive(length)
        }
        return response
    }

    func head() throws -> Response {
        let lines = String(decoding: try receive(through: "\r\n\r\n"), as: UTF8.self)
            .components(separatedBy: "\r\n")
        var response = Response()
        response.statusLine = lines[0]
        let words = lines[0].split(separator: " ")
        response.version = String(words[0])
        response.status = Int(words[1]) ?? 0
        for line in lines.dropFirst() where line.contains(":") {
            let parts = line.split(separator: ":", maxSplits: 1)
            response.headers[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        return response
    }

    /// One chunk of a chunked body; nil at its end, after its trailer.
    func chunk() throws -> [UInt8]? {
        let line = String(decoding: try receive(through: "\r\n").dropLast(2), as: UTF8.self)
        guard let length = Int(line, radix: 16) else { throw Failure(what: "chunk of \(line)") }
        guard length > 0 else {
            trailer = []
            while true {
                let bytes = try receive(through: "\r\n").dropLast(2)
                let field = String(decoding: bytes, as: UTF8.self)
                if field.isEmpty { return nil }
                trailer.append(field)
            }
        }
        let bytes = try receive(length)
        _ = try receive(2)
        return bytes
    }

    /// Whether the server has closed the connection, or closes it within the client's timeout.
    ///
    /// - Parameter isEmpty: Whether nothing may come before that.
    /// - Returns: Whether it is closed.
    func isClosed(andEmpty isEmpty: Bool = false) -> Bool {
        do {
            while !isEmpty || received.isEmpty { try receive() }
            return false
        } catch {
            return (error as? Failure)?.what == "closed"
        }
    }

    /// Shuts down the sending side.
    func endSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Makes the close of the connection a reset.
    func resetAtClose() {
        var linger = linger(l_onoff: 1, l_linger: 0)
        let size = socklen_t(MemoryLayout.size(ofValue: linger))
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, size)
    }

    /// The received bytes up to `mark`, without it.
    func bytes(through mark: String) throws -> [UInt8] {
        try receive(through: mark).dropLast(mark.utf8.count)
    }

    /// The next `count` bytes.
    func bytes(_ count: Int) throws -> [UInt8] { try receive(count) }

    private func receive(_ count: Int) throws -> [UInt8] {
        while received.count < count { try receive() }
        defer { received.removeFirst(count) }
        return Array(received.prefix(count))
    }

    private func receive(through text: String) throws -> [UInt8] {
        let mark = Array(text.utf8)
        var from = 0
        while true {
            if let place = received.dropFirst(from).firstRange(of: mark) {
                return try receive(place.upperBound)
            }
            from = max(0, received.count - mark.count)
            try receive()
        }
    }

    private func receive() throws {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        guard count >= 0 else { throw Failure(what: "nothing received: \(errno)") }
        guard count > 0 else { throw Failure(what: "closed") }
        received += buffer.prefix(count)
    }
}

/// Runs blocking calls on a separate thread, since the server's tasks share dispatch's threads.
func apart<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { waiter in
        Thread.detachNewThread { waiter.resume(with: Result(catching: body)) }
    }
}
