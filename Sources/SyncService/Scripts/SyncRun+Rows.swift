internal import Bytes
internal import JSON
internal import ScriptProcesses
internal import Syncing
internal import Wire

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
