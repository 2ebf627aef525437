import Bytes
import JSON
import Revisions
import SyncWire
import TestWorld

/// Documents of devices: whatever the bytes are, a body is refused or has one canonical form.
enum SyncBodyTarget {
    static func run(_ view: ByteView) {
        checkCanonical(view)
        checkBody(view, .doubles)
        checkBody(view, .literals)
        checkAttachments(view)
        _ = try? DocumentExpiry.parse(view.bytes)
        _ = CalendarTime.unixSeconds(iso: view)
    }

    /// Attachments of a first revision, which are read as they were printed.
    private static func checkAttachments(_ view: ByteView) {
        func parsed(_ json: JSONValue?) -> [StoredAttachment]? {
            guard let json,
                let sent = try? SentAttachment.parse(
                    json,
                    sha1: { _ in Array(repeating: 7, count: 20) }
                )
            else { return nil }
            return try? AttachmentMerge(sent, inherited: [], generation: 1).attachments
        }
        guard let attachments = parsed(JSONValue.parse(view)) else { return }
        require(
            parsed(StoredAttachment.json(attachments)) == attachments,
            "the metadata of attachments parses to itself"
        )
    }

    private static func checkCanonical(_ view: ByteView) {
        let result = Result { () throws(RequestRefusal) in try CanonicalJSON.text(view) }
        switch result {
        case .success(let text):
            text.withUnsafeBytes { buffer in
                let text = ByteView(buffer)
                require(JSONGrammar.accepts(text), "canonical text is valid JSON")
                require(
                    (try? CanonicalJSON.text(text)) == text.bytes,
                    "canonical text is its own canonical text"
                )
            }
        case .failure(let refusal):
            // The grammar accepts deeper nesting and larger numbers.
            let isValid = JSONGrammar.accepts(view)
            let hasLimits = refusal == .tooDeep || view.buffer.contains { $0 | 0x20 == 0x65 }
            require(!isValid || hasLimits || view.count > 300, "valid JSON is accepted")
        }
    }

    private static func checkBody(_ view: ByteView, _ numbers: CanonicalJSON.Numbers) {
        guard let body = try? DocumentBody(view, numbers: numbers) else { return }
        let stored = DocumentContent(canonical: body.content.bytes)
        require(stored == body.content, "stored content is read as it was written")
        let output = ByteWriter()
        body.content.append(with: body.own, to: output)
        require(
            (try? CanonicalJSON.text(output.view, numbers: numbers)) == output.bytes,
            "a document with the gateway's members is canonical"
        )
        require(
            (try? DocumentBody(output.view, numbers: numbers)) == body,
            "a written document parses to itself"
        )
        output.removeAll()
        body.content.appendDigestInput(
            parent: body.own.revision.flatMap { RevisionID($0) },
            attachments: body.own.attachments,
            deletion: body.own.deletion,
            to: output
        )
        let parentCount = Int(output.view[0])
        let json = output.view.dropFirst(1 + parentCount)
        require(
            (try? CanonicalJSON.text(json, numbers: numbers)) == json.bytes,
            "a digest is made of canonical text"
        )
    }
}

/// Histories, lists and the requests that consist of them.
enum SyncHistoryTarget {
    static func run(_ view: ByteView) {
        if let history = try? RevisionHistory(view.bytes) {
            require((try? RevisionHistory(history.json)) == history, "a history parses to itself")
            require(
                RevisionHistory(of: history.newest, ancestors: history.revisions.dropFirst())
                    == history,
                "a history is made of its revisions"
            )
        }
        if let revision = RevisionID(view) {
            require(
                revision.text.withUnsafeBytes { RevisionID(ByteView($0)) } == revision,
                "a revision id parses to itself"
            )
        }
        _ = try? OpenRevisions(view.text)
        _ = try? RevisionsDiff(view)
        _ = try? BulkGetRequest(view)
        _ = try? AllDocumentsRequest(query: .none, body: view)
        _ = try? ChangesRequest(query: .none, body: view)
    }
}

/// Sequence tokens: what is printed parses to itself, and tokens have a total order.
enum SyncTokenTarget {
    /// The tokens are separated by line ends.
    static func run(_ view: ByteView) {
        var tokens: [SequenceToken] = []
        for line in view.buffer.split(separator: 0x0a).prefix(8) {
            let text = ByteView(UnsafeRawBufferPointer(rebasing: line))
            guard let token = try? SequenceToken(text) else { continue }
            require((try? SequenceToken(token.description)) == token, "a token parses to itself")
            tokens.append(token)
        }
        for one in tokens {
            for other in tokens {
                let count = (one < other ? 1 : 0) + (other < one ? 1 : 0) + (one == other ? 1 : 0)
                require(count == 1, "two tokens have one order")
                for third in tokens where one < other && other < third {
                    require(one < third, "the order of tokens is transitive")
                }
            }
        }
    }
}
