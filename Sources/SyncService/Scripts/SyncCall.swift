internal import Bytes
internal import JSON
package import Revisions
internal import ScriptProcesses
internal import SyncWire
internal import Syncing
internal import Wire

/// One call of a sync function: the document, the one that it replaces, and the user.
package struct SyncCall: Sendable {
    package struct Old: Sendable {
        package let body: RevisionBody
        package let isDeleted: Bool

        package init(body: RevisionBody, isDeleted: Bool) {
            self.body = body
            self.isDeleted = isDeleted
        }
    }

    package let name: RevisionName
    package let isDeleted: Bool
    package let body: RevisionBody
    package let old: Old?
    /// The third argument as JSON; nil is null.
    package let context: [UInt8]?

    package init(
        _ name: RevisionName,
        isDeleted: Bool,
        body: RevisionBody,
        old: Old?,
        context: [UInt8]?
    ) {
        self.name = name
        self.isDeleted = isDeleted
        self.body = body
        self.old = old
        self.context = context
    }

    /// Writes the first argument.
    func writeDocument(to output: ByteWriter) {
        Self.write(name.document, name.revision, isDeleted: isDeleted, body: body, to: output)
    }

    /// Writes `[oldDoc, userCtx]`.
    func writeContext(to output: ByteWriter) {
        output.append(UInt8(ascii: "["))
        if let old {
            Self.write(name.document, nil, isDeleted: old.isDeleted, body: old.body, to: output)
        } else {
            output.append("null")
        }
        output.append(UInt8(ascii: ","))
        if let context { output.append(context) } else { output.append("null") }
        output.append(UInt8(ascii: "]"))
    }

    /// Writes a body behind the members of the gateway; JavaScript does not need names in order.
    private static func write(
        _ id: [UInt8],
        _ revision: RevisionID?,
        isDeleted: Bool,
        body: RevisionBody,
        to output: ByteWriter
    ) {
        output.append("{\"_id\":")
        CanonicalJSON.append(string: String(decoding: id, as: UTF8.self), to: output)
        if let revision {
            output.append(",\"_rev\":")
            CanonicalJSON.append(string: revision.description, to: output)
        }
        if isDeleted { output.append(",\"_deleted\":true") }
        if !body.attachments.isEmpty {
            output.append(",\"_attachments\":")
            output.append(CanonicalJSON.text(of: StoredAttachment.json(body.attachments)))
        }
        // A body without members is `{}`, or empty if it was never stored.
        guard body.json.count > 2 else { return output.append(UInt8(ascii: "}")) }
        output.append(UInt8(ascii: ","))
        body.json.withUnsafeBytes { output.append(ByteView($0).dropFirst(1)) }
    }
}

/// The records of runs, from the rows that the harness of sync functions makes.
extension SyncRun {
    /// The runs of the items of a batch.
    ///
    /// The process is not trusted: rows that the harness does not make fail their run.
    static func runs(of count: Int, _ results: ScriptResults) -> [SyncRun] {
        var builders = [Builder](repeating: Builder(), count: count)
        for piece in results.pieces {
            piece.bytes.withUnsafeBytes { bytes in
                guard var rows = ScriptSection<ScriptRow>(ByteView(bytes)) else {
                    preconditionFailure("pieces are checked when they arrive")
                }
                while let row = rows.next() {
                    let item = piece.firstItem + Int(row.item)
                    if builders.indices.contains(item) { builders[item].add(row.key, row.value) }
                }
            }
        }
        for failure in results.failures where builders.indices.contains(failure.item) {
            let line = failure.line > 0 ? " (line \(failure.line))" : ""
            builders[failure.item].end = .failed(failure.text + line)
        }
        return builders.map { SyncRun($0.calls, end: $0.end) }
    }

    private struct Builder {
        var calls: [Call] = []
        var end = End.returned

        mutating func add(_ kind: ByteView, _ text: ByteView) {
            guard let name = JSONValue.parse(kind)?.string, let value = JSONValue.parse(text) else {
                end = .failed("A script process sent an invalid row.")
                return
            }
            let pair = value.array ?? []
            switch name {
            case "channel": calls.append(.channel(pair))
            case "access" where pair.count == 2:
                calls.append(.access(users: pair[0], channels: pair[1]))
            case "role" where pair.count == 2:
                calls.append(.role(users: pair[0], roles: pair[1]))
            case "expiry": calls.append(.expiry(value))
            case "reject" where pair.count == 2:
                calls.append(.reject(status: pair[0], reason: pair[1]))
            case "requireUser": calls.append(.claim(.user(value)))
            case "requireRole": calls.append(.claim(.role(value)))
            case "requireAccess": calls.append(.claim(.access(value)))
            case "requireAdmin": calls.append(.claim(.administrator))
            case "forbidden": end = .forbidden(Self.reason(value))
            case "unauthorized": end = .unauthorized(Self.reason(value))
            case "exception": end = .failed(Self.failure(pair))
            default: end = .failed("A script process sent an invalid row.")
            }
        }

        /// A reason as the client gets it: a text, or other JSON as its text.
        private static func reason(_ value: JSONValue) -> String {
            value.string ?? String(decoding: JSONWriter.text { $0.value(value) }, as: UTF8.self)
        }

        private static func failure(_ parts: [JSONValue]) -> String {
            let text = parts.first?.string ?? ""
            guard let line = parts.last?.int, line > 0 else { return text }
            return "\(text) (line \(line))"
        }
    }
}
