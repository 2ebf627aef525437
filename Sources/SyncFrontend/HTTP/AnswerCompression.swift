/// Decides whether an answer is gzipped, as Sync Gateway decides it.
enum AnswerCompression {
    /// JSON that is shorter is not compressed.
    private static let jsonBytesMin = 1_000

    /// Whether a whole answer of `count` bytes is long enough; Sync Gateway has a bound for JSON only.
    static func pays(_ count: Int, _ head: AnswerHead) -> Bool {
        let isJSON = head.headers["Content-Type"] == "application/json"
        return count >= (isJSON ? jsonBytesMin : 1) && pays(head)
    }

    /// Whether the client accepts it, and the request is none whose answer stays as it is.
    static func isAccepted(by request: GatewayRequest) -> Bool {
        switch request.method {
        case "HEAD", "PUT", "DELETE": return false
        default: break
        }
        guard let accepted = request.header("Accept-Encoding") else { return false }
        return !request.isWebSocketUpgrade && lists(gzipIn: accepted)
    }

    /// Whether it makes an answer smaller.
    static func pays(_ head: AnswerHead) -> Bool {
        guard head.status < 300, head.headers["Content-Encoding"] == nil,
            let type = head.headers["Content-Type"]
        else { return false }
        return ["application/json", "text/", "multipart/mixed"].contains { type.hasPrefix($0) }
    }

    /// Whether the value of `Accept-Encoding` has gzip with a quality above 0.
    static func lists(gzipIn value: String) -> Bool {
        value.split(separator: ",").contains { element in
            let parts = element.split(separator: ";").map { trimmed($0) }
            guard let coding = parts.first, FieldName.equal(String(coding), "gzip") else {
                return false
            }
            return !parts.dropFirst().contains { part in
                part.hasPrefix("q=") && Double(part.dropFirst(2)) == 0
            }
        }
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text
        while let first = text.first, first == " " || first == "\t" { text.removeFirst() }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return text
    }
}
