internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// The two forms of an HTTP feed.
enum ChangesFormat: Sendable {
    /// One JSON object a line.
    case lines
    /// Server-sent events (the WHATWG's HTML standard, 9.2): changes have the type `message`.
    case events

    var contentType: String {
        switch self {
        case .lines: "application/x-ndjson; charset=utf-8"
        case .events: "text/event-stream; charset=utf-8"
        }
    }

    /// The bytes that an idle feed sends; readers ignore them.
    var heartbeat: [UInt8] {
        switch self {
        case .lines: Array("\n".utf8)
        case .events: Array(":\n\n".utf8)
        }
    }

    /// Appends an event; returns whether it is the last one.
    func append(_ event: ChangesEvent, to output: inout [UInt8]) -> Bool {
        switch event {
        case .change(let document):
            append(ChangesFormat.json(document), type: nil, to: &output)
            return false
        case .rollback(let vBucket, let seqno):
            let place: JSONText = [
                "vb": .number(vBucket.number), "seqno": .number(seqno.value),
            ]
            append(["rollback": place], type: "rollback", to: &output)
            return false
        case .purged(let vBucket):
            let reason =
                "Deletions after the position of this feed in vBucket \(vBucket.number) were purged. "
                + "Discard your copy and start without a token."
            append(["error": "gone", "reason": .string(reason)], type: "failure", to: &output)
            return true
        case .failed(let reason):
            append(
                ["error": "retry_needed", "reason": .string(reason)],
                type: "failure",
                to: &output
            )
            return true
        case .end: return true
        }
    }

    /// Appends the token of everything before it.
    func append(token: String, to output: inout [UInt8]) {
        if self == .events { output += Array("id: \(token)\n".utf8) }
        append(["token": .string(token)], type: "token", to: &output)
    }

    private func append(_ json: JSONText, type: String?, to output: inout [UInt8]) {
        switch self {
        case .lines:
            output += json.bytes
            output.append(UInt8(ascii: "\n"))
        case .events:
            if let type { output += Array("event: \(type)\n".utf8) }
            output += Array("data: ".utf8)
            output += json.bytes
            output += Array("\n\n".utf8)
        }
    }

    /// A change as JSON without line breaks.
    private static func json(_ document: ChangedDocument) -> JSONText {
        var members = DocumentJSON.name("id", of: document.key)
        members += [
            ("vb", .number(document.vBucket.number)),
            ("seqno", .number(document.seqno.value)),
            // A number of 64 bits, which readers of JSON would round.
            ("cas", .string(String(document.cas.value))),
        ]
        if document.isDeleted { members.append(("deleted", true)) }
        if document.isExpired { members.append(("expired", true)) }
        guard let value = document.value else { return .object(members) }
        guard DocumentJSON.isJSON(value) else {
            return .object(members + [("base64", DocumentJSON.base64(value))])
        }
        // Between the parts of JSON text, a line break is the same as a blank; elsewhere JSON has none.
        let breaks: Set<UInt8> = [UInt8(ascii: "\n"), UInt8(ascii: "\r")]
        let line = value.map { breaks.contains($0) ? UInt8(ascii: " ") : $0 }
        return .object(members + [("doc", .rendered(line))])
    }
}
