import Foundation

/// A client of one request: it connects, sends, and reads the answer to the end.
///
/// Its calls block the test's thread; the gateway has a thread of its own.
struct GatewayClient {
    struct Failure: Error {
        let what: String
    }

    /// An answer as it came, its body without chunks.
    struct Answer {
        var status = 0
        /// Of the status line: `Not Found`.
        var phrase = ""
        /// By lowercase name.
        var headers: [String: String] = [:]
        var body: [UInt8] = []

        var text: String { String(decoding: body, as: UTF8.self) }
        var json: Any? {
            try? JSONSerialization.jsonObject(with: Data(body), options: .fragmentsAllowed)
        }
        var object: [String: Any] { json as? [String: Any] ?? [:] }
        /// The member `rev`; empty if there is none.
        var revision: String { object["rev"] as? String ?? "" }
        /// The member `reason`; empty if there is none.
        var reason: String { object["reason"] as? String ?? "" }
    }

    let port: Int

    /// Sends a request and reads its answer.
    ///
    /// - Parameters:
    ///   - line: Method and target: `GET /db/doc`.
    ///   - headers: Lines without their ends.
    ///   - body: Sent with its length; nil for none.
    /// - Returns: The answer.
    /// - Throws: `Failure` if there is no whole answer within ten seconds.
    func ask(_ line: String, _ headers: [String], body: [UInt8]?) throws -> Answer {
        let descriptor = try connect()
        defer { close(descriptor) }
        var lines = ["\(line) HTTP/1.1", "Host: 127.0.0.1:\(port)", "Connection: close"] + headers
        if let body { lines.append("Content-Length: \(body.count)") }
        let head = Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
        try send(head + (body ?? []), descriptor)
        let received = try receive(descriptor)
        return try Self.parse(received, isHead: line.hasPrefix("HEAD "))
    }

    private func connect() throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var timeout = timeval(tv_sec: 10, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, size)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, size)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let code = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Foundation.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard code == 0 else {
            close(descriptor)
            throw Failure(what: "no connection: \(errno)")
        }
        return descriptor
    }

    private func send(_ bytes: [UInt8], _ descriptor: Int32) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let sent = rest.withUnsafeBytes {
                Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            // A gateway that refuses a body may close before it has read all of it.
            if sent <= 0 { return }
            rest = rest.dropFirst(sent)
        }
    }

    private func receive(_ descriptor: Int32) throws -> [UInt8] {
        var received: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = buffer.withUnsafeMutableBytes {
                recv(descriptor, $0.baseAddress, $0.count, 0)
            }
            guard count >= 0 else { throw Failure(what: "no answer: \(errno)") }
            if count == 0 { return received }
            received += buffer[..<count]
        }
    }

    private static func parse(_ bytes: [UInt8], isHead: Bool) throws -> Answer {
        guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else {
            throw Failure(what: "an answer without a head: \(bytes.count) bytes")
        }
        let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self)
            .components(separatedBy: "\r\n")
        var answer = Answer()
        let words = lines[0].split(separator: " ", maxSplits: 2).map(String.init)
        answer.status = words.count > 1 ? Int(words[1]) ?? 0 : 0
        answer.phrase = words.count > 2 ? words[2] : ""
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            guard parts.count == 2 else { continue }
            answer.headers[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        let rest = Array(bytes[end.upperBound...])
        let isChunked = answer.headers["transfer-encoding"] == "chunked" && !isHead
        answer.body = isChunked ? try unchunked(rest) : rest
        return answer
    }

    private static func unchunked(_ bytes: [UInt8]) throws -> [UInt8] {
        var body: [UInt8] = []
        var rest = bytes[...]
        while let end = rest.firstRange(of: Array("\r\n".utf8)) {
            let line = String(decoding: rest[..<end.lowerBound], as: UTF8.self)
            guard let count = Int(line, radix: 16) else { throw Failure(what: "chunk of \(line)") }
            if count == 0 { return body }
            body += rest[end.upperBound...].prefix(count)
            rest = rest[end.upperBound...].dropFirst(count + 2)
        }
        throw Failure(what: "the answer ends within a chunk")
    }
}
