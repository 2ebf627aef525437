internal import NIOHTTP1

/// Decides which answer is a connection's last, and in which version of HTTP it is (RFC 9112, 9.3).
///
/// - HTTP/1.1: the connection stays open, unless one of the two sides says `Connection: close`.
/// - HTTP/1.0: it closes after the answer, unless the client asks with `Connection: keep-alive`; an
///   answer that keeps it open says so. A body whose length the head does not say ends with the
///   connection, since HTTP/1.0 has no chunks.
struct ConnectionPersistence {
    private struct Request {
        let isVersion10: Bool
        let persists: Bool
    }

    /// The requests that were not answered yet, in their order.
    private var requests: [Request] = []

    var unansweredCount: Int { requests.count }

    /// Notes a request, and puts its head into the form that the framework compares with.
    mutating func receive(_ head: inout HTTPRequestHead) {
        let isVersion10 = head.version.major == 1 && head.version.minor == 0
        let persists = Self.persists(head.headers, isVersion10: isVersion10)
        requests.append(Request(isVersion10: isVersion10, persists: persists))
        // The framework reads no further request where the field is this very word.
        if !persists { head.headers.replaceOrAdd(name: "Connection", value: "close") }
        // HTTP/1.0 has no interim answers (RFC 9110, 10.1.1).
        if isVersion10 { head.headers.remove(name: "Expect") }
    }

    /// Puts an answer's head into its request's version, and says there whether it is the last.
    ///
    /// - Returns: Whether the connection closes after this answer.
    mutating func beginAnswer(_ head: inout HTTPResponseHead) -> Bool {
        guard let request = requests.first else { return true }
        let saysLength =
            head.headers.contains(name: "Content-Length") || !head.status.mayHaveResponseBody
        let isLast =
            !request.persists || !head.isKeepAlive || (request.isVersion10 && !saysLength)
        if request.isVersion10 { head.version = .http1_0 }
        if isLast {
            head.headers.replaceOrAdd(name: "Connection", value: "close")
        } else if request.isVersion10 {
            head.headers.replaceOrAdd(name: "Connection", value: "keep-alive")
        }
        return isLast
    }

    /// What `Connection` says, whose words may stand in any order and case: `close` counts first.
    ///
    /// NIO's own answer takes the first word.
    private static func persists(_ headers: HTTPHeaders, isVersion10: Bool) -> Bool {
        let words = headers[canonicalForm: "connection"].map { $0.lowercased() }
        if words.contains("close") { return false }
        return !isVersion10 || words.contains("keep-alive")
    }

    mutating func endAnswer() {
        if !requests.isEmpty { requests.removeFirst() }
    }
}
