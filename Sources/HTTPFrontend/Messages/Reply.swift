internal import Orchestration

/// An answer as the routes give it: status, type, body.
struct Reply: Sendable {
    enum Body: Sendable {
        case bytes([UInt8])
        /// Called once the head is sent; what it passes on goes out at once.
        case stream(Stream)
    }

    typealias Send = (consuming [UInt8]) async throws -> Void
    /// Looks now and then whether the client is still there: a stream with nothing to say would
    /// not notice otherwise.
    typealias Stream = @Sendable (_ isHeard: () -> Bool, _ send: Send) async throws -> Void

    var status: Int
    var contentType: String?
    var headers: [(name: String, value: String)] = []
    var body: Body
    /// Nothing was changed, since somebody else changed what it rests on: asked anew, it may be.
    var isOvertaken = false

    init(status: Int, contentType: String?, body: Body) {
        self.status = status
        self.contentType = contentType
        self.body = body
    }

    // MARK: Successes

    /// Nothing more to say.
    static var done: Reply { empty(200) }

    /// What was only to be judged may be.
    static var valid: Reply { json(["errors": [:]]) }

    static func empty(_ status: Int) -> Reply {
        Reply(status: status, contentType: nil, body: .bytes([]))
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

    /// Clients look for these very words to tell a missing bucket from other troubles.
    static var notFound: Reply { text("Requested resource not found.\r\n", status: 404) }

    static var overtaken: Reply {
        var reply = text("Others change this at the same time: ask again.\r\n", status: 409)
        reply.isOvertaken = true
        return reply
    }

    static func methodNotAllowed(_ allowed: [String]) -> Reply {
        var reply = text("Method Not Allowed\r\n", status: 405)
        reply.headers.append(("Allow", allowed.sorted().joined(separator: ", ")))
        return reply
    }

    /// `{"errors":{"field":"text"}}`, with members before and after.
    static func refused(_ errors: [FieldError], and more: [(String, JSONText)] = []) -> Reply {
        let fields = errors.map { ($0.field, JSONText.string($0.text)) }
        return json(.object([("errors", .object(fields))] + more), status: 400)
    }

    /// `["text"]`, as the oldest routes refuse.
    static func refusedList(_ errors: [FieldError]) -> Reply {
        json(.array(errors.map { .string($0.text) }), status: 400)
    }

    /// `["text"]`, as tools of long ago expect it.
    static func list(_ text: String, status: Int) -> Reply {
        json([.string(text)], status: status)
    }

    static func failed(_ text: String) -> Reply {
        json(["errors": ["_": .string(text)]], status: 500)
    }

    static func forbidden(_ permission: String) -> Reply {
        json(
            [
                "message": "Forbidden. User needs the following permissions",
                "permissions": [.string(permission)],
            ],
            status: 403
        )
    }
}
