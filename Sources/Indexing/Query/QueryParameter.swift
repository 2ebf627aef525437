internal import Bytes
internal import JSON

/// A parameter of a query's URL, percent-decoded; bytes, because a document's ID can be any bytes.
package struct QueryParameter: Equatable, Sendable {
    package let name: String
    package let value: [UInt8]

    package init(name: String, value: [UInt8]) {
        self.name = name
        self.value = value
    }
}

/// A parameter whose value was understood; whether it fits the others is decided later.
///
/// Couchbase reports the first value that is invalid by itself before any two that conflict, so
/// parsing and applying are two passes.
enum QuerySetting {
    case startKey([UInt8])
    case endKey([UInt8])
    case reduce(Bool)
    case group(Bool)
    case groupLevel(Int)
    case includesDocuments(Bool)
    case timeoutMilliseconds(Int)
    /// Sets a property whose value fits all others.
    case property((inout ViewQuery) -> Void)

    /// The settings of one parameter: two for `key`, none for a name that is not known.
    ///
    /// Keys are returned as sort keys.
    ///
    /// - Throws: `QueryRefusal` if the value is invalid.
    static func parse(
        _ name: String,
        _ value: ByteView,
        encode: (ByteView) -> [UInt8]?
    ) throws(QueryRefusal) -> [QuerySetting] {
        switch name {
        case "key":
            let key = try sortKey(name, value, encode: encode)
            return [.startKey(key), .endKey(key)]
        case "startkey", "start_key": return [.startKey(try sortKey(name, value, encode: encode))]
        case "endkey", "end_key": return [.endKey(try sortKey(name, value, encode: encode))]
        case "startkey_docid", "start_key_doc_id":
            return set(\.selection.startDocumentID, value.bytes)
        case "endkey_docid", "end_key_doc_id":
            return set(\.selection.endDocumentID, value.bytes)
        case "inclusive_end": return set(\.selection.includesEnd, try boolean(value))
        case "limit": return set(\.limit, try natural(value))
        case "skip": return set(\.skip, try natural(value))
        case "descending": return set(\.isDescending, try boolean(value))
        case "reduce": return [.reduce(try boolean(value))]
        case "group": return [.group(try boolean(value))]
        case "group_level": return [.groupLevel(try natural(value))]
        case "stale": return set(\.freshness, try freshness(value))
        case "on_error": return set(\.failurePolicy, try failurePolicy(value))
        case "include_docs": return [.includesDocuments(try boolean(value))]
        case "debug": return set(\.isDebug, try boolean(value))
        case "full_set": return set(\.usesFullSet, try boolean(value))
        case "connection_timeout": return [.timeoutMilliseconds(try milliseconds(value))]
        case "_type":
            try requireMainIndex(value)
            return []
        default: return []
        }
    }

    private static func set<Value>(
        _ property: WritableKeyPath<ViewQuery, Value>,
        _ value: Value
    ) -> [QuerySetting] {
        [.property { $0[keyPath: property] = value }]
    }

    /// The sort key of a JSON text, which blanks may surround.
    ///
    /// It may be longer than any row's key, and has then the key's place among rows.
    ///
    /// - Throws: `QueryRefusal` if the text is not JSON or has no sort key because of its length.
    static func sortKey(
        _ name: String,
        _ text: ByteView,
        encode: (ByteView) -> [UInt8]?
    ) throws(QueryRefusal) -> [UInt8] {
        guard JSONGrammar.accepts(text) else { throw .invalidJSON(text) }
        guard let key = encode(JSONParts.trimmed(text)) else {
            throw .parameter(
                "A key in query parameter `\(name)` is longer than \(Collation.boundTextBytesMax) bytes."
                    + " Query a shorter one: no row has such a key."
            )
        }
        return key
    }

    // MARK: Values

    static func boolean(_ value: ByteView) throws(QueryRefusal) -> Bool {
        switch value.text.lowercased() {
        case "true": return true
        case "false": return false
        default:
            throw .parameter("Invalid boolean parameter: \(QueryRefusal.quoted(value))")
        }
    }

    /// A number from 0 on; `Int.max` for one that is greater.
    private static func natural(_ value: ByteView) throws(QueryRefusal) -> Int {
        let text = value.text
        let isSigned = text.hasPrefix("-") || text.hasPrefix("+")
        let digits = text.dropFirst(isSigned ? 1 : 0)
        let isNumber = !digits.isEmpty && digits.utf8.allSatisfy { $0 &- UInt8(ascii: "0") < 10 }
        guard isNumber else {
            throw .parameter("Invalid value for integer parameter: \(QueryRefusal.quoted(value))")
        }
        let number = Int(digits) ?? .max
        guard number == 0 || !text.hasPrefix("-") else {
            throw .parameter(
                "Invalid value for positive integer parameter: \(QueryRefusal.quoted(value))"
            )
        }
        return number
    }

    private static func freshness(_ value: ByteView) throws(QueryRefusal) -> ViewQuery.Freshness {
        switch value.text {
        case "ok": return .any
        case "update_after": return .updateAfter
        case "false": return .current
        default: throw .parameter("stale only available as stale=ok or as stale=update_after")
        }
    }

    private static func failurePolicy(
        _ value: ByteView
    ) throws(QueryRefusal) -> ViewQuery.FailurePolicy {
        switch value.text {
        case "continue": return .continueRows
        case "stop": return .stopRows
        default:
            throw .request(
                "Invalid value (`\(value.text)`) for the parameter `on_error`."
                    + " It must be `continue` (default) or `stop`."
            )
        }
    }

    private static func milliseconds(_ value: ByteView) throws(QueryRefusal) -> Int {
        guard JSONGrammar.accepts(value) else { throw .invalidJSON(value) }
        guard let number = JSONValue.parse(value)?.int, number >= 0 else {
            throw .request("Query parameter `connection_timeout` must be an integer")
        }
        return number
    }

    private static func requireMainIndex(_ value: ByteView) throws(QueryRefusal) {
        switch value.text {
        case "main": return
        case "replica":
            throw .parameter(
                "There are no replica indexes: query parameter `_type` must be `main`."
            )
        default: throw .parameter("Query parameter `_type` must be `main`.")
        }
    }
}
