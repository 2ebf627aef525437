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
        guard let strings = try RevisionList.parse(text, named: name) else {
            throw .badList(name)
        }
        return strings
    }
}
