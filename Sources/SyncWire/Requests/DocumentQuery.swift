internal import Bytes

/// The options of `GET /db/doc` and, for all its documents, of `_bulk_get`.
package struct DocumentQuery: Equatable, Sendable {
    package let revision: String?
    /// The revisions of `open_revs`; nil if one revision is requested.
    package let openRevisions: OpenRevisions?
    /// The history that each document has; nil for none.
    package let history: HistoryOptions?
    /// The revisions whose attachments the client has (`atts_since`); nil if bodies are not asked for.
    package let attachmentsSince: [String]?
    package let hasExpiry: Bool
    /// Whether the newest descendants replace the requested revision (CouchDB's `latest`).
    package let isLatest: Bool
    package let hasConflicts: Bool
    package let hasRevisionInfo: Bool

    /// The member `_revisions`.
    package struct HistoryOptions: Equatable, Sendable {
        /// `revs_limit`; nil for no bound.
        package let limit: Int?
        /// `revs_from`, and without it `atts_since`: the history ends at the first of these.
        package let known: Set<String>
    }

    /// - Throws: `.badOpenRevisions`, `.badMember` if `revs_from` or `atts_since` is no JSON array of strings,
    ///   `.tooMany`.
    package init(_ query: QueryParameters) throws(RequestRefusal) {
        revision = query["rev"].flatMap { $0.isEmpty ? nil : $0 }
        openRevisions = try DocumentQuery.openRevisions(query)
        let since = try DocumentQuery.list("atts_since", query)
        let limit = query.integer("revs_limit")
        let known = try DocumentQuery.list("revs_from", query) ?? since ?? []
        let hasHistory = query.bool("revs") && limit != 0
        history = hasHistory ? HistoryOptions(limit: limit, known: Set(known)) : nil
        attachmentsSince = query.bool("attachments") ? since ?? [] : nil
        hasExpiry = query.bool("show_exp")
        isLatest = query.bool("latest")
        hasConflicts = query.bool("conflicts") || query.bool("meta")
        hasRevisionInfo = query.bool("revs_info") || query.bool("meta")
    }

    /// - Throws: The refusals of `OpenRevisions`.
    private static func openRevisions(
        _ query: QueryParameters
    ) throws(RequestRefusal) -> OpenRevisions? {
        guard let text = query["open_revs"], !text.isEmpty else { return nil }
        return try OpenRevisions(text)
    }

    /// - Throws: `.badMember(name)`, `.tooMany(name)`.
    private static func list(
        _ name: String,
        _ query: QueryParameters
    ) throws(RequestRefusal) -> [String]? {
        guard let text = query[name], !text.isEmpty else { return nil }
        guard let strings = try RevisionList.parse(text, named: name) else {
            throw .badMember(name)
        }
        return strings
    }
}
