internal import Bytes
internal import JSON

/// The parameters of a request that come in the query, in a JSON body, or in both: the query overrides the body.
///
/// The types in the body are checked also of parameters that the query overrides, as in Sync Gateway.
struct RequestParameters {
    private let query: URLParameters
    private let body: JSONValue?

    /// - Throws: `.badJSON` if the body is neither empty nor a JSON object, `.tooMany("body")` if it is too large.
    init(query: URLParameters, body: ByteView) throws(RequestRefusal) {
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
        let value = member(name)
        let string = value?.string
        if value != nil, string == nil { throw .badJSON }
        return query[name] ?? string
    }

    /// Whether the query has `true`, or else the body.
    ///
    /// - Throws: `.badJSON` if the body has another type.
    func bool(_ name: String) throws(RequestRefusal) -> Bool {
        let value = member(name)
        let claim = value?.bool
        if value != nil, claim == nil { throw .badJSON }
        return query[name] == nil ? claim ?? false : query.bool(name)
    }

    /// A number without sign; nil if it is absent, or the query has something else.
    ///
    /// - Parameters:
    ///   - name: The parameter.
    ///   - mayBeNegative: Whether a negative number in the body is taken for an absent one, instead of refused.
    /// - Returns: The number.
    /// - Throws: `.badJSON` if the body has another type.
    func integer(_ name: String, mayBeNegative: Bool = false) throws(RequestRefusal) -> Int? {
        var number: Int?
        if let value = member(name) {
            number = value.double.flatMap(Int.init(exactly:))
            guard let given = number, given >= 0 || mayBeNegative else { throw .badJSON }
            if given < 0 { number = nil }
        }
        return query[name] == nil ? number : query.integer(name)
    }

    /// A sequence; nil if it is absent.
    ///
    /// - Throws: `.badSequence`.
    func sequence(_ name: String) throws(RequestRefusal) -> SequenceToken? {
        var token: SequenceToken?
        if let value = member(name) { token = try SequenceToken(value) }
        if let text = query[name] { token = try SequenceToken(text) }
        return token
    }

    /// A list of names: a JSON array, or a text with commas; nil if the parameter is absent or the text is empty.
    ///
    /// An empty text in the query overrides nothing.
    ///
    /// - Throws: `.badJSON` if the body has another type, `.tooMany`.
    func list(_ name: String) throws(RequestRefusal) -> [String]? {
        var strings: [String]?
        if let value = member(name) {
            if let text = value.string {
                strings = try RequestParameters.list(text, named: name)
            } else {
                strings = try RevisionList.strings(of: value, named: name)
                if strings == nil { throw .badJSON }
            }
        }
        guard let text = query[name] else { return strings }
        return try RequestParameters.list(text, named: name) ?? strings
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

/// The options of `GET /db/doc` and, for all its documents, of `_bulk_get`.
package struct DocumentQuery: Equatable, Sendable {
    package let revision: String?
    /// The revisions of `open_revs`; nil if one revision is requested.
    package let openRevisions: OpenRevisions?
    /// The history that each document has; nil for none.
    package let history: HistoryOptions?
    /// The revisions whose attachments the client has (`atts_since`); nil if bodies are not asked for.
    package let attachmentsSince: [String]?
    /// Whether the newest descendants replace the requested revision (CouchDB's `latest`).
    package let isLatest: Bool
    package let details: Details

    /// The member `_revisions`.
    package struct HistoryOptions: Equatable, Sendable {
        /// `revs_limit`; nil for no bound.
        package let limit: Int?
        /// `revs_from`, and without it `atts_since`: the history ends at the first of these.
        package let known: Set<String>

        package init(limit: Int? = nil, known: Set<String> = []) {
            self.limit = limit
            self.known = known
        }
    }

    /// Members of the gateway that a document has if they are asked for; all but `_exp` are CouchDB's.
    package struct Details: OptionSet, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// `_exp`.
        package static let expiry = Details(rawValue: 1)
        /// `_conflicts`: the other live leaves.
        package static let conflicts = Details(rawValue: 2)
        /// `_deleted_conflicts`: the other deleted leaves.
        package static let deletedConflicts = Details(rawValue: 4)
        /// `_revs_info`: the history, with what is stored of each revision.
        package static let revisionInfo = Details(rawValue: 8)
        /// `_local_seq`: the sequence of the document.
        package static let localSequence = Details(rawValue: 16)

        init(_ query: URLParameters) {
            self = []
            if query.bool("meta") { formUnion([.conflicts, .deletedConflicts, .revisionInfo]) }
            if query.bool("show_exp") { insert(.expiry) }
            if query.bool("conflicts") { insert(.conflicts) }
            if query.bool("deleted_conflicts") { insert(.deletedConflicts) }
            if query.bool("revs_info") { insert(.revisionInfo) }
            if query.bool("local_seq") { insert(.localSequence) }
        }
    }

    /// - Throws: `.badOpenRevisions`, `.badList` if `revs_from` or `atts_since` is no JSON array of strings,
    ///   `.tooMany`.
    package init(_ query: URLParameters) throws(RequestRefusal) {
        revision = query["rev"].flatMap { $0.isEmpty ? nil : $0 }
        openRevisions = try DocumentQuery.openRevisions(query)
        let since = try DocumentQuery.list("atts_since", query)
        let limit = query.integer("revs_limit")
        let ended = try DocumentQuery.list("revs_from", query) ?? since ?? []
        let hasHistory = query.bool("revs") && limit != 0
        history = hasHistory ? HistoryOptions(limit: limit, known: Set(ended)) : nil
        attachmentsSince = query.bool("attachments") ? since ?? [] : nil
        isLatest = query.bool("latest")
        details = Details(query)
    }

    /// - Throws: The refusals of `OpenRevisions`.
    private static func openRevisions(
        _ query: URLParameters
    ) throws(RequestRefusal) -> OpenRevisions? {
        guard let text = query["open_revs"], !text.isEmpty else { return nil }
        return try OpenRevisions(text)
    }

    /// - Throws: `.badList(name)`, `.tooMany(name)`.
    private static func list(
        _ name: String,
        _ query: URLParameters
    ) throws(RequestRefusal) -> [String]? {
        guard let text = query[name], !text.isEmpty, text != "null" else { return nil }
        guard let strings = try RevisionList.parse(text, named: name) else { throw .badList(name) }
        return strings
    }
}
