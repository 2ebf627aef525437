internal import Orchestration

/// A field of a response's head or trailer.
typealias HeaderField = (name: String, value: String)

/// A route's reply: status, content type, headers, body.
struct Reply: Sendable {
    enum Body: Sendable {
        case bytes([UInt8])
        /// Called after the head is sent; every chunk is sent at once.
        case stream(Stream)
    }

    typealias Send = (consuming [UInt8]) async throws -> Void
    /// Sends a body in chunks and returns the fields of its trailer.
    ///
    /// If it throws, the connection closes without the end of the body, so that the client notices.
    /// It checks `isConnected` regularly, since a stream without new content would not notice a
    /// disconnect otherwise.
    typealias Stream =
        @Sendable (_ isConnected: () -> Bool, _ send: Send) async throws
        -> [HeaderField]

    var status: Int
    var contentType: String?
    var headers: [HeaderField] = []
    var body: Body
    /// Nothing was changed, since the state changed concurrently; the router repeats the request.
    var isOvertaken = false
    /// How long a client may leave a chunk of the stream unread before its connection is closed; nil
    /// for any time.
    var stallTimeout: Duration?

    // MARK: Successes

    /// Success with an empty body.
    static var done: Reply { empty(200) }

    /// A validation without errors.
    static var valid: Reply { json(["errors": [:]]) }

    static func empty(_ status: Int) -> Reply {
        Reply(status: status, contentType: nil, body: .bytes([]))
    }

    /// This reply with a warning in a header, where tools that parse the body do not find it; unchanged
    /// without one.
    func warning(_ text: String?) -> Reply {
        text.map { header("Divan-Warning", $0) } ?? self
    }

    /// This reply with one more header.
    func header(_ name: String, _ value: String) -> Reply {
        var reply = self
        reply.headers.append((name, value))
        return reply
    }

    static func json(_ json: JSONText, status: Int = 200) -> Reply {
        rendered(json.bytes, status: status)
    }

    /// JSON that is rendered already.
    static func rendered(_ bytes: [UInt8], status: Int = 200) -> Reply {
        Reply(status: status, contentType: "application/json", body: .bytes(bytes))
    }

    // MARK: Refusals

    static func text(_ text: String, status: Int) -> Reply {
        Reply(status: status, contentType: "text/plain", body: .bytes(Array(text.utf8)))
    }

    /// Clients match these words to recognize a missing bucket.
    static var notFound: Reply { text("Requested resource not found.\r\n", status: 404) }

    static var overtaken: Reply {
        var reply = text("The state changed concurrently. Retry.\r\n", status: 409)
        reply.isOvertaken = true
        return reply
    }

    /// `{"errors":{"field":"text"}}`, followed by further members.
    static func refused(_ errors: [FieldError], and more: [(String, JSONText)] = []) -> Reply {
        let fields = errors.map { ($0.field, JSONText.string($0.text)) }
        return json(.object([("errors", .object(fields))] + more), status: 400)
    }

    /// `["text"]` with every error, the form of the oldest routes.
    static func refusedList(_ errors: [FieldError]) -> Reply {
        json(.array(errors.map { .string($0.text) }), status: 400)
    }

    /// `["text"]`, which old tools expect.
    static func list(_ text: String, status: Int) -> Reply {
        json([.string(text)], status: status)
    }

    static func failed(_ text: String) -> Reply {
        json(["errors": ["_": .string(text)]], status: 500)
    }

    /// The message of Couchbase Server's refusals, before `permissions`.
    static let forbiddenMessage = "Forbidden. User needs the following permissions"

    static func forbidden(_ permission: String) -> Reply {
        json(
            [
                "message": .string(forbiddenMessage),
                "permissions": [.string(permission)],
            ],
            status: 403
        )
    }
}
