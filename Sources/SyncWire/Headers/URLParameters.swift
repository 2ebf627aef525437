package import Bytes
internal import JSON

/// The parameters of a query string or a form (`application/x-www-form-urlencoded`).
///
/// If a name occurs several times, the first value counts, as in Go. A parameter that cannot be decoded is left
/// out, as in Go.
package struct URLParameters: Equatable, Sendable {
    private var values: [String: String] = [:]

    package static let none = URLParameters()

    private init() {}

    /// - Throws: `.queryTooLong` above `SyncLimits.queryBytesMax`, `.tooMany("query")` above
    ///   `SyncLimits.queryParametersMax` parameters.
    package init(_ query: ByteView) throws(RequestRefusal) {
        guard query.count <= SyncLimits.queryBytesMax else { throw .queryTooLong }
        let parts = ASCII.split(query, at: "&").filter { !$0.isEmpty }
        guard parts.count <= SyncLimits.queryParametersMax else { throw .tooMany("query") }
        for part in parts {
            let (name, value) = ASCII.cut(part, at: "=") ?? (part, .empty)
            guard let name = PercentCoding.decode(name, plusIsBlank: true),
                let value = PercentCoding.decode(value, plusIsBlank: true), values[name] == nil
            else { continue }
            values[name] = value
        }
    }

    /// The value of a parameter; nil if it is absent.
    package subscript(name: String) -> String? { values[name] }

    /// Whether a parameter is `true`; false for anything else.
    package func bool(_ name: String) -> Bool { values[name] == "true" }

    /// A number without sign; nil if the parameter is absent or something else.
    package func integer(_ name: String) -> Int? {
        values[name].flatMap { $0.withView { ASCII.number($0, as: Int.self) } }
    }

    /// A text, which may be a JSON string: CouchDB's clients quote keys and sequences.
    package func string(_ name: String) -> String? {
        guard let text = values[name] else { return nil }
        guard text.utf8.first == UInt8(ascii: "\"") else { return text }
        return JSONValue.parse(text)?.string ?? text
    }
}
