internal import Bytes
package import Indexing
internal import JSON

/// The parameters of view queries, of a URL and of a body.
extension IndexQueries {
    /// Whether the query requires a current index, by its last `stale`; its value is not checked here.
    static func isCurrent(_ request: ViewRequest) -> Bool {
        guard let stale = request.parameters.last(where: { $0.name == "stale" }) else {
            return false
        }
        return parsed(stale).value.starts(with: Array("false".utf8))
    }

    /// Whether a query with these parameters includes documents, if it is valid.
    static func includesDocuments(_ parameters: [ViewParameter]) -> Bool {
        // Other parameters are not copied: `keys` may have megabytes.
        ViewQuery.includesDocuments(parameters.filter { $0.name == "include_docs" }.map(parsed))
    }

    /// A parameter of a URL or a body as the parser of queries reads it.
    private static func parsed(_ parameter: ViewParameter) -> QueryParameter {
        let value =
            switch parameter.value {
            case .text(let text): Array(text.utf8)
            case .json(let json): plainValue(of: json, named: parameter.name)
            }
        return QueryParameter(name: parameter.name, value: value)
    }

    /// Checks the parameters of a request.
    ///
    /// - Throws: `QueryRefusal` with the text for the client.
    package static func query(
        _ request: ViewRequest,
        hasReduce: Bool
    ) throws(QueryRefusal) -> ViewQuery {
        var body: [UInt8]?
        var parameters: [QueryParameter] = []
        for parameter in request.parameters {
            if parameter.name == "keys", case .json(let json) = parameter.value {
                // The texts of refusals distinguish the member of a body.
                body = Array("{\"keys\":".utf8) + json + [UInt8(ascii: "}")]
            } else {
                parameters.append(parsed(parameter))
            }
        }
        let sortKeys = SortKeys()
        let parsed = (body ?? []).withUnsafeBytes { bytes in
            Result { () throws(QueryRefusal) in
                try ViewQuery(
                    parameters: parameters,
                    body: body == nil ? nil : ByteView(bytes),
                    hasReduce: hasReduce,
                    encode: sortKeys.encode
                )
            }
        }
        return try parsed.get()
    }

    /// Parameters whose values are JSON texts, also in a URL.
    private static let keyNames: Set<String> = [
        "key", "keys", "startkey", "start_key", "endkey", "end_key",
    ]

    /// A value of a body as a URL would have it: a string without its quotes, unless it is a key.
    private static func plainValue(of json: [UInt8], named name: String) -> [UInt8] {
        guard !keyNames.contains(name) else { return json }
        let text = json.withUnsafeBytes { JSONValue.parse(ByteView($0))?.string }
        return text.map { Array($0.utf8) } ?? json
    }

    /// Collations that no request uses now; one is opened only if there is none.
    private static let idleCollations = Guarded<[Collation]>([])
    /// More than requests whose parameters are checked at the same time.
    private static let idleCollationsMax = 16

    /// Makes sort keys for one request; a request without keys needs no collation.
    private final class SortKeys {
        private var collation: Collation?
        /// For texts that are longer than those of rows' keys, which few requests have.
        private var boundCollation: Collation?

        deinit {
            guard let collation else { return }
            idleCollations.withLock { idle in
                if idle.count < idleCollationsMax { idle.append(collation) }
            }
        }

        /// Nil if the text has no sort key.
        func encode(_ text: ByteView) -> [UInt8]? {
            guard let collation = collation(for: text) else { return nil }
            let key = ByteWriter()
            return collation.appendBound(ofJSON: text, to: key) == .appended ? key.bytes : nil
        }

        /// Nil if no collation can be opened, or none is for so long a text.
        private func collation(for text: ByteView) -> Collation? {
            if text.count > Collation.boundTextBytesMax { return nil }
            if text.count > Collation.textBytesMax {
                let room = Collation.boundTextBytesMax
                boundCollation = boundCollation ?? (try? Collation(textBytesMax: room))
                return boundCollation
            }
            let known = collation ?? idleCollations.withLock { $0.popLast() }
            collation = known ?? (try? Collation())
            return collation
        }
    }
}
