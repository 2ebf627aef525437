/// Why the gateway refuses a request that it has parsed or tried to parse.
///
/// Status and reason are the ones that Sync Gateway answers, because clients compare both (contract,
/// section 3). Limits that are Divan's own have sentences of their own.
package enum RequestRefusal: Error, Equatable, Sendable {
    /// Not JSON, or JSON of a form that the request does not have.
    case badJSON
    /// Nested deeper than `SyncLimits.depthMax`.
    case tooDeep
    case documentTooLarge
    /// The document has a member that begins with `_` and is not the gateway's.
    case userProperty
    /// A member of the gateway has a value of another type: `_revisions`, `_id`, `_deleted` and so on.
    case badMember(String)
    case badExpiry
    case badAttachments
    case badOpenRevisions
    /// A parameter of the query is no JSON array of strings.
    case badList(String)
    case badSequence
    case unknownFeed
    case unknownFilter
    case missingChannels
    case emptyChannels
    case badChannel(String)
    case missingDocumentIDs
    case emptyDocumentIDs
    /// The filter `_doc_ids` with another feed than `normal`.
    case documentIDsNeedNormalFeed
    case missingDocuments
    case badBulkGet
    /// `keys` of a POST of `_all_docs`.
    case missingKeys
    /// `keys` in the query of `_all_docs`.
    case badKeys
    case tooMany(String)
    case queryTooLong
    case badContentType
    case badMultipart(MultipartFailure)
    case multipartOnly

    /// The HTTP status of the answer.
    package var status: Int {
        switch self {
        case .documentTooLarge, .tooMany: 413
        case .queryTooLong: 414
        case .badContentType: 415
        case .multipartOnly: 406
        default: 400
        }
    }

    /// The member `reason` of the answer.
    package var reason: String {
        switch self {
        case .badJSON: "Bad JSON"
        case .tooDeep: "JSON is nested deeper than \(SyncLimits.depthMax) levels"
        case .documentTooLarge:
            "The document is larger than \(SyncLimits.documentBytesMax >> 20) MB"
        case .userProperty:
            "user defined top level properties beginning with '_' are not allowed in document body"
        case .badMember(let name): "Bad \(name)"
        case .badExpiry: "Invalid expiry"
        case .badAttachments: "Invalid _attachments"
        case .badOpenRevisions: "bad open_revs"
        case .badList(let name): "\(name) URL param is not a JSON string array"
        case .tooMany(let list):
            "Too many elements in '\(list)'; send at most \(SyncLimits.listMax)"
        case .queryTooLong: "The query string is too long; send the parameters in a POST request"
        case .badContentType: "Invalid content type"
        case .badMultipart(let failure): failure.reason
        case .multipartOnly: "Response is multipart"
        default: listReason
        }
    }

    /// The reasons of requests for changes and for several documents.
    private var listReason: String {
        switch self {
        case .badSequence: "Invalid sequence"
        case .unknownFeed: "Unknown feed type"
        case .unknownFilter: "Unknown filter; try sync_gateway/bychannel or _doc_ids"
        case .missingChannels: "Missing 'channels' filter parameter"
        case .emptyChannels: "Empty channel list"
        case .badChannel(let name): "Illegal channel name \"\(name)\""
        case .missingDocumentIDs: "Missing 'doc_ids' filter parameter"
        case .emptyDocumentIDs: "Empty doc_ids list"
        case .documentIDsNeedNormalFeed:
            "Filter '_doc_ids' is only valid for feed=normal replications"
        case .missingDocuments: "missing 'docs' property"
        case .badBulkGet: "Invalid doc/rev ID in _bulk_get"
        case .missingKeys: "Bad/missing keys"
        case .badKeys: "Bad keys"
        default: "Bad request"
        }
    }
}

/// An answer with an error: an HTTP status and the text of its member `reason`.
package struct Refusal: Error, Hashable, Sendable {
    package let status: Int
    package let reason: String

    package init(_ status: Int, _ reason: String) {
        self.status = status
        self.reason = reason
    }

    package static let missing = Refusal(404, "missing")
}
