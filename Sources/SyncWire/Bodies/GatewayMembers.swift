internal import Bytes
internal import JSON

/// The members of a document that belong to the gateway: those whose names begin with `_`.
///
/// Values that only some requests use are canonical JSON and parsed on demand, because Sync Gateway ignores
/// them elsewhere, whatever they are: `_revisions` without `new_edits=false`, for example.
package struct GatewayMembers: Equatable, Sendable {
    package var id: String?
    /// A `RevisionID`, or that of a local document (`0-N`).
    package var revision: String?
    /// The value of `_deleted`; nil if there is none.
    ///
    /// It is part of the revision digest even if false.
    package var deletion: Bool?
    package var isRemoved = false
    /// An object with the metadata of each attachment by name, of which `Revisions` has the rules.
    package var attachments: [UInt8]?
    /// `{"ids":[...],"start":N}` (`RevisionHistory`).
    package var revisions: [UInt8]?
    /// The value of `_exp`: seconds, a time or a text (`DocumentExpiry`).
    package var expiry: [UInt8]?
    /// Members of CouchDB that only answers have.
    package var answer = AnswerMembers()

    package init(attachments: [UInt8]? = nil, deletion: Bool? = nil) {
        self.attachments = attachments
        self.deletion = deletion
    }

    package init(id: String, revision: RevisionID) {
        self.id = id
        self.revision = revision.description
    }

    package var isDeleted: Bool { deletion ?? false }

    /// The revisions from this one back to the oldest ancestor that the author sent; only this one if there are no
    /// `_revisions`.
    ///
    /// - Throws: `.badMember("_revisions")` if they are no history, and there is no valid `_rev` in their place.
    package func history() throws(RequestRefusal) -> RevisionHistory {
        if let revisions, revisions.first == UInt8(ascii: "{") {
            return try RevisionHistory(revisions)
        }
        guard let revision = revision.flatMap({ RevisionID($0) }) else {
            throw .badMember("_revisions")
        }
        return RevisionHistory(of: revision, ancestors: [])
    }

    /// When the document expires; nil if never.
    ///
    /// - Throws: `.badExpiry`.
    package func documentExpiry() throws(RequestRefusal) -> DocumentExpiry? {
        guard let expiry else { return nil }
        return try DocumentExpiry.parse(expiry)
    }

    /// Writes the members in the order of their names, separated by commas; returns whether there are any.
    func append(to output: ByteWriter) -> Bool {
        let start = output.count
        func begin(_ name: StaticString) {
            if output.count > start { output.append(UInt8(ascii: ",")) }
            output.append(name)
        }
        if let attachments {
            begin("\"_attachments\":")
            output.append(attachments)
        }
        if !answer.conflicts.isEmpty {
            begin("\"_conflicts\":")
            CanonicalJSON.append(strings: answer.conflicts, to: output)
        }
        if let deletion {
            begin("\"_deleted\":")
            output.append(deletion ? "true" : "false")
        }
        if !answer.deletedConflicts.isEmpty {
            begin("\"_deleted_conflicts\":")
            CanonicalJSON.append(strings: answer.deletedConflicts, to: output)
        }
        if let expiry {
            begin("\"_exp\":")
            output.append(expiry)
        }
        if let id {
            begin("\"_id\":")
            CanonicalJSON.append(string: id, to: output)
        }
        if let sequence = answer.localSequence {
            begin("\"_local_seq\":")
            output.append(text: String(sequence))
        }
        if isRemoved { begin("\"_removed\":true") }
        if let revision {
            begin("\"_rev\":")
            CanonicalJSON.append(string: revision, to: output)
        }
        if let revisions {
            begin("\"_revisions\":")
            output.append(revisions)
        }
        if !answer.revisionInfo.isEmpty {
            begin("\"_revs_info\":[")
            CanonicalJSON.appendList(answer.revisionInfo, to: output) { info in
                output.append("{\"rev\":")
                CanonicalJSON.append(string: info.revision, to: output)
                output.append(text: ",\"status\":\"\(info.status.rawValue)\"}")
            }
            output.append("]")
        }
        return output.count > start
    }
}

/// The options of CouchDB's clients beside the document: `conflicts`, `revs_info`, `meta`, `local_seq`.
package struct AnswerMembers: Equatable, Sendable {
    package var conflicts: [String] = []
    package var deletedConflicts: [String] = []
    package var localSequence: UInt64?
    /// The revision and its ancestors, newest first.
    package var revisionInfo: [RevisionInfo] = []

    package struct RevisionInfo: Equatable, Sendable {
        package enum Status: String, Sendable {
            case available
            case missing
            case deleted
        }

        package let revision: String
        package let status: Status

        package init(_ revision: String, _ status: Status) {
            self.revision = revision
            self.status = status
        }
    }

    package init() {}
}

/// When a document expires: the member `_exp`.
package enum DocumentExpiry: Equatable, Sendable {
    /// So long after the write.
    case seconds(Int)
    /// At this second since 1970.
    case unixSeconds(Int)

    /// Numbers up to here are durations, larger ones times: memcached's rule, which the bucket has too.
    package static let durationSecondsMax = 30 * 86_400

    /// Nil for 0, and for times that 32 bits do not hold.
    package init?(number: Int) {
        guard 1...Int(UInt32.max) ~= number else { return nil }
        self = number <= Self.durationSecondsMax ? .seconds(number) : .unixSeconds(number)
    }

    /// Parses the value of `_exp`: a number, a text with digits, or an ISO 8601 time.
    ///
    /// Nil for 0 and null: the document does not expire.
    ///
    /// - Throws: `.badExpiry` for anything else, and for times that 32 bits do not hold.
    package static func parse(_ json: [UInt8]) throws(RequestRefusal) -> DocumentExpiry? {
        let value = json.withUnsafeBytes { JSONValue.parse(ByteView($0)) }
        switch value {
        case .null?: return nil
        case .integer(let number)?: return try expiry(ofNumber: number)
        case .string(let text)?:
            let number = text.withView { text in
                ASCII.number(text, as: Int.self)
            }
            if let number { return try expiry(ofNumber: number) }
            guard let time = text.withView({ CalendarTime.unixSeconds(iso: $0) }),
                0...Int(UInt32.max) ~= time
            else { throw .badExpiry }
            return .unixSeconds(time)
        case let number?:
            guard let whole = number.double.flatMap({ Int(exactly: $0.rounded(.towardZero)) })
            else { throw .badExpiry }
            return try expiry(ofNumber: whole)
        case nil: throw .badExpiry
        }
    }

    private static func expiry(ofNumber number: Int) throws(RequestRefusal) -> DocumentExpiry? {
        guard let expiry = DocumentExpiry(number: number) else {
            if number == 0 { return nil }
            throw .badExpiry
        }
        return expiry
    }
}
