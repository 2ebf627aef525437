package import Bytes
internal import JSON

/// The body of `_bulk_get`: `{"docs":[{"id","rev"?,"atts_since"?,"revs_from"?,"revs_limit"?}]}`.
package struct BulkGetRequest: Equatable, Sendable {
    /// One document of the request.
    package struct Item: Equatable, Sendable {
        /// Nil if the row has no valid id: the answer is a row with the refusal `.badBulkGet`.
        package let id: String?
        /// The revision as it was sent; nil for the winner.
        package let revision: String?
        package let attachmentsSince: [String]?
        package let revisionsFrom: [String]?
        package let revisionsLimit: Int?
        /// Why this row is refused; nil if it is not.
        package let refusal: RequestRefusal?
    }

    package let items: [Item]

    /// - Throws: `.badJSON`, `.missingDocuments` if `docs` is no array, `.tooMany`.
    package init(_ body: ByteView) throws(RequestRefusal) {
        let value = try RequestParameters.object(body)
        guard let rows = value["docs"]?.array else { throw .missingDocuments }
        guard rows.count <= SyncLimits.listMax else { throw .tooMany("docs") }
        var items: [Item] = []
        items.reserveCapacity(rows.count)
        for row in rows { items.append(try Item(row)) }
        self.items = items
    }
}

extension BulkGetRequest.Item {
    /// - Throws: `.tooMany`.
    fileprivate init(_ row: JSONValue) throws(RequestRefusal) {
        let id = row["id"]?.string.flatMap { $0.isEmpty ? nil : $0 }
        let revision = row["rev"].flatMap { $0.isNull ? nil : $0 }
        let limit = row["revs_limit"].flatMap { $0.isNull ? nil : $0 }
        let isValid = id != nil && (revision == nil || revision?.string != nil)
        self.id = id
        self.revision = revision?.string
        attachmentsSince = try RevisionList.strings(of: row["atts_since"], named: "atts_since")
        revisionsFrom = try RevisionList.strings(of: row["revs_from"], named: "revs_from")
        revisionsLimit = limit?.double.flatMap(Int.init(exactly:)).flatMap { $0 < 0 ? nil : $0 }
        if !isValid {
            refusal = .badBulkGet
        } else if limit != nil, revisionsLimit == nil {
            refusal = .badMember("revs_limit")
        } else {
            refusal = nil
        }
    }
}

/// The body of `_revs_diff`: `{"doc":["rev",...]}`, and its answer.
package struct RevisionsDiff: Equatable, Sendable {
    /// The revisions that the client has of each document, in the order of the body.
    package let documents: [(id: String, revisions: [String])]

    /// - Throws: `.badJSON`, or `.tooMany` if there are more than `SyncLimits.listMax` documents, or so many
    ///   revisions of one.
    package init(_ body: ByteView) throws(RequestRefusal) {
        let value = try RequestParameters.object(body)
        let members = value.members ?? []
        guard members.count <= SyncLimits.listMax else { throw .tooMany("_revs_diff") }
        var documents: [(id: String, revisions: [String])] = []
        documents.reserveCapacity(members.count)
        for member in members {
            guard let revisions = try RevisionList.strings(of: member.value, named: member.name)
            else { throw .badJSON }
            documents.append((member.name, revisions))
        }
        self.documents = documents
    }

    package static func == (one: RevisionsDiff, other: RevisionsDiff) -> Bool {
        one.documents.elementsEqual(other.documents, by: ==)
    }

    /// Writes the answer row by row: `{`, rows separated by a comma and line ends, `}`.
    package struct Writer {
        private let output: ByteWriter
        private var hasRows = false

        package init(_ output: ByteWriter) {
            self.output = output
            output.append("{")
        }

        /// Appends the row of a document of which revisions are missing.
        ///
        /// `ancestors` are revisions that the gateway has and that may be ancestors of these.
        package mutating func append(_ id: String, missing: [String], ancestors: [String]) {
            if hasRows { output.append(",\n") }
            hasRows = true
            CanonicalJSON.append(string: id, to: output)
            output.append(":{\"missing\":")
            CanonicalJSON.append(strings: missing, to: output)
            if !ancestors.isEmpty {
                output.append(",\"possible_ancestors\":")
                CanonicalJSON.append(strings: ancestors, to: output)
            }
            output.append("}\n")
        }

        package func end() { output.append("}") }
    }
}
