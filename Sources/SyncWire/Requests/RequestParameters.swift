internal import Bytes
internal import JSON

/// The parameters of a request that come in the query, in a JSON body, or in both: the query overrides the body.
struct RequestParameters {
    private let query: QueryParameters
    private let body: JSONValue?

    /// - Throws: `.badJSON` if the body is neither empty nor a JSON object, `.tooMany("body")` if it is too large.
    init(query: QueryParameters, body: ByteView) throws(RequestRefusal) {
        self.query = query
        self.body = body.isEmpty ? nil : try RequestParameters.object(body)
    }

    /// Parses the body of a request that consists of names and lists.
    ///
    /// - Throws: `.badJSON` if it is no object, `.tooMany("body")` above `SyncLimits.requestBytesMax`.
    static func object(_ body: ByteView) throws(RequestRefusal) -> JSONValue {
        guard body.count <= SyncLimits.requestBytesMax else { throw .tooMany("body") }
        guard let value = JSONValue.parse(body), value.members != nil else { throw .badJSON }
        return value
    }

    /// The text of the query, or the string of the body; nil if the parameter is absent.
    ///
    /// - Throws: `.badJSON` if the body has another type.
    func string(_ name: String) throws(RequestRefusal) -> String? {
        if let text = query[name] { return text }
        guard let value = member(name) else { return nil }
        guard let string = value.string else { throw .badJSON }
        return string
    }

    /// Whether the query has `true`, or else the body.
    ///
    /// - Throws: `.badJSON` if the body has another type.
    func bool(_ name: String) throws(RequestRefusal) -> Bool {
        if query[name] != nil { return query.bool(name) }
        guard let value = member(name) else { return false }
        guard let claim = value.bool else { throw .badJSON }
        return claim
    }

    /// A number without sign; nil if it is absent, or the query has something else.
    ///
    /// - Throws: `.badJSON` if the body has another type or a negative number.
    func integer(_ name: String) throws(RequestRefusal) -> Int? {
        if query[name] != nil { return query.integer(name) }
        guard let value = member(name) else { return nil }
        guard let number = value.double.flatMap(Int.init(exactly:)), number >= 0 else {
            throw .badJSON
        }
        return number
    }

    /// A sequence; nil if it is absent.
    ///
    /// - Throws: `.badSequence`.
    func sequence(_ name: String) throws(RequestRefusal) -> SequenceToken? {
        // The body is checked also if the query overrides it.
        var token: SequenceToken?
        if let value = member(name) { token = try SequenceToken(value) }
        if let text = query[name] { token = try SequenceToken(text) }
        return token
    }

    /// A list of names: a JSON array, or a text with commas; nil if the parameter is absent or the text is empty.
    ///
    /// - Throws: `.badJSON` if the body has another type, `.tooMany`.
    func list(_ name: String) throws(RequestRefusal) -> [String]? {
        if let text = query[name] { return try RequestParameters.list(text, named: name) }
        guard let value = member(name) else { return nil }
        if let text = value.string { return try RequestParameters.list(text, named: name) }
        guard let strings = try RevisionList.strings(of: value, named: name) else { throw .badJSON }
        return strings
    }

    private static func list(
        _ text: String,
        named name: String
    ) throws(RequestRefusal) -> [String]? {
        if text.isEmpty { return nil }
        if text.utf8.first == UInt8(ascii: "["),
            let strings = try RevisionList.parse(text, named: name)
        {
            return strings.isEmpty ? nil : strings
        }
        let parts = text.split(separator: ",", omittingEmptySubsequences: false)
        guard parts.count <= SyncLimits.listMax else { throw .tooMany(name) }
        return parts.map(String.init)
    }

    /// The member of the body; nil if it is absent or null.
    private func member(_ name: String) -> JSONValue? {
        guard let value = body?[name], !value.isNull else { return nil }
        return value
    }
}
