package import Bytes
internal import JSON

/// A request for `_all_docs`, by GET or by POST.
package struct AllDocumentsRequest: Equatable, Sendable {
    /// Which documents.
    package enum Selection: Equatable, Sendable {
        case range(Range)
        /// These, in this order; a row for each.
        case keys([String])
    }

    /// Ids in the order of their bytes.
    package struct Range: Equatable, Sendable {
        package var start: String?
        package var end: String?
        package var includesEnd = true
        package var isDescending = false
        package var skip = 0

        package init() {}
    }

    /// The members of a row.
    package struct Content: Equatable, Sendable {
        package var hasDocuments = false
        package var hasHistories = false
        package var hasChannels = false
        /// Only for the administration port.
        package var hasAccess = false
        package var hasSequences = false
        package var hasConflicts = false
        package var hasAttachments = false

        package init() {}
    }

    package let selection: Selection
    package let content: Content
    /// The largest number of rows; nil if there is no bound.
    ///
    /// 0 is no bound for Sync Gateway, and no row for CouchDB.
    package let limit: Int?

    /// Parses the query and, of a POST, the body `{"keys":[...]}`; for a GET `body` is nil.
    ///
    /// - Throws: `.badKeys` or, with a body, `.missingKeys`; `.badJSON`, `.tooMany("keys")`.
    package init(query: URLParameters, body: ByteView?) throws(RequestRefusal) {
        selection = try Selection(query: query, body: body)
        content = Content(query)
        limit = query.integer("limit")
    }
}

extension AllDocumentsRequest.Selection {
    /// - Throws: The refusals of the request.
    fileprivate init(query: URLParameters, body: ByteView?) throws(RequestRefusal) {
        if let body {
            let keys = try RequestParameters.object(body)["keys"]
            guard let keys = try RevisionList.strings(of: keys, named: "keys") else {
                throw .missingKeys
            }
            self = .keys(keys)
        } else if let text = query["keys"], !text.isEmpty {
            guard let keys = try RevisionList.parse(text, named: "keys") else { throw .badKeys }
            self = .keys(keys)
        } else {
            self = .range(AllDocumentsRequest.Range(query))
        }
    }
}

extension AllDocumentsRequest.Range {
    fileprivate init(_ query: URLParameters) {
        // CouchDB's clients know each of the parameters by two names.
        start = query.string("startkey") ?? query.string("start_key")
        end = query.string("endkey") ?? query.string("end_key")
        if let key = query.string("key") { (start, end) = (key, key) }
        includesEnd = query["inclusive_end"] != "false"
        isDescending = query.bool("descending")
        skip = query.integer("skip") ?? 0
    }
}

extension AllDocumentsRequest.Content {
    fileprivate init(_ query: URLParameters) {
        hasDocuments = query.bool("include_docs")
        hasHistories = query.bool("revs")
        hasChannels = query.bool("channels")
        hasAccess = query.bool("access")
        hasSequences = query.bool("update_seq")
        hasConflicts = query.bool("conflicts")
        hasAttachments = query.bool("attachments")
    }
}
