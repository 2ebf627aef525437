internal import NIOHTTP1

/// Decides which response is a connection's last, and its HTTP version (RFC 9112, 9.3).
///
/// - HTTP/1.1: the connection stays open unless the request or the response has `Connection:
///   close`.
/// - HTTP/1.0: the connection closes after the response unless the request has
///   `Connection: keep-alive`; a response that keeps it open has the same field. A body without a
///   `Content-Length` ends with the connection, since HTTP/1.0 has no chunks.
struct ConnectionPersistence {
    private struct Request {
        let isVersion10: Bool
        let persists: Bool
    }

    /// The requests without a response yet, in their order.
    private var requests: [Request] = []
    /// Whether the response to the first request has begun.
    private var isResponding = false

    var unansweredCount: Int { requests.count }

    /// Whether an interim response would be one to the only unanswered request.
    ///
    /// HTTP/1.0 has no interim responses.
    var allowsInterimResponse: Bool {
        requests.count == 1 && !requests[0].isVersion10 && !isResponding
    }

    /// Records a request and normalizes its head for the framework.
    mutating func receive(_ head: inout HTTPRequestHead) {
        let isVersion10 = head.version.major == 1 && head.version.minor == 0
        let persists = Self.persists(head.headers, isVersion10: isVersion10)
        requests.append(Request(isVersion10: isVersion10, persists: persists))
        // The framework stops reading requests only if the field is exactly this word.
        if !persists { head.headers.replaceOrAdd(name: "Connection", value: "close") }
        // HTTP/1.0 has no interim answers (RFC 9110, 10.1.1).
        if isVersion10 { head.headers.remove(name: "Expect") }
    }

    /// Sets the version and the `Connection` field of a response's head.
    ///
    /// - Returns: Whether the connection closes after this response.
    mutating func beginResponse(_ head: inout HTTPResponseHead) -> Bool {
        isResponding = true
        guard let request = requests.first else { return true }
        let declaresLength =
            head.headers.contains(name: "Content-Length") || !head.status.mayHaveResponseBody
        let isLast =
            !request.persists || !head.isKeepAlive || (request.isVersion10 && !declaresLength)
        if request.isVersion10 { head.version = .http1_0 }
        if isLast {
            head.headers.replaceOrAdd(name: "Connection", value: "close")
        } else if request.isVersion10 {
            head.headers.replaceOrAdd(name: "Connection", value: "keep-alive")
        }
        return isLast
    }

    /// Whether the `Connection` field keeps the connection open; its words may be in any order and
    /// case, and `close` overrides `keep-alive`.
    ///
    /// NIO's own check reads only the first word.
    private static func persists(_ headers: HTTPHeaders, isVersion10: Bool) -> Bool {
        let words = headers[canonicalForm: "connection"].map { $0.lowercased() }
        if words.contains("close") { return false }
        return !isVersion10 || words.contains("keep-alive")
    }

    /// Removes the first request, whose response is complete.
    mutating func endResponse() {
        isResponding = false
        if !requests.isEmpty { requests.removeFirst() }
    }
}
