package import Bytes
internal import JSON

/// A document as a client sends it, split into the gateway's members and the user's.
///
/// - `content` is canonical, so that equal documents have equal bytes, and digests need no further pass.
/// - Parsing needs memory for the canonical text, and at most 16 bytes for each member of an object whose
///   names are not sorted.
package struct DocumentBody: Equatable, Sendable {
    package var own: GatewayMembers
    package let content: DocumentContent

    /// The members that a body may have.
    package enum Policy: Sendable {
        /// From a client: members of the gateway that it may send.
        case written
        /// From the store: none of the gateway's.
        case stored
    }

    /// Parses and splits a document; `numbers` depends on the dialect of its database.
    ///
    /// - Throws: `.documentTooLarge`, `.tooDeep`, `.badJSON` (not an object), `.userProperty` for an unknown name
    ///   that begins with `_`, `.badMember` if `_id`, `_deleted` or `_removed` has another type,
    ///   `.badAttachments`.
    package init(
        _ json: ByteView,
        policy: Policy = .written,
        numbers: CanonicalJSON.Numbers = .doubles
    ) throws(RequestRefusal) {
        guard json.count <= SyncLimits.documentBytesMax else { throw .documentTooLarge }
        let index = try CanonicalJSON.index(json, numbers: numbers)
        guard let members = index.rootMembers else { throw .badJSON }
        var split = Split(index: index, policy: policy, numbers: numbers)
        for member in members { try split.add(member) }
        (own, content) = split.finish()
    }

    private init(own: GatewayMembers, content: DocumentContent) {
        (self.own, self.content) = (own, content)
    }

    /// A deletion without members of the user.
    package static let tombstone = DocumentBody(
        own: GatewayMembers(deletion: true),
        content: .empty
    )

    /// The names of a document's attachments in the order of its text, which `own` does not keep.
    package static func attachmentNames(in json: ByteView) -> [String] {
        JSONValue.parse(json)?["_attachments"]?.members?.map(\.name) ?? []
    }

    /// Writes the user's members and collects the gateway's.
    private struct Split {
        private let policy: Policy
        private let index: JSONIndex
        private let output: ByteWriter
        private var writer: CanonicalWriter
        private var own = GatewayMembers()
        private var leadCount = 0

        init(index: JSONIndex, policy: Policy, numbers: CanonicalJSON.Numbers) {
            self.index = index
            self.policy = policy
            output = ByteWriter(capacity: index.text.count + 2)
            output.append(UInt8(ascii: "{"))
            writer = CanonicalWriter(index: index, numbers: numbers, output: output)
        }

        /// Adds one member; members come in the order of their names.
        ///
        /// - Throws: The refusals of the body.
        mutating func add(_ member: JSONIndex.Member) throws(RequestRefusal) {
            let name = index.view(member.name)
            let underscore = UInt8(ascii: "_")
            if !name.isEmpty, name[0] == underscore {
                guard policy == .written else { throw .userProperty }
                return try addOwn(name.text, ofMember: member)
            }
            if output.count > 1 { output.append(UInt8(ascii: ",")) }
            writer.writeName(of: member)
            writer.writeValue(of: member)
            if name.isEmpty || name[0] < underscore { leadCount = output.count - 1 }
        }

        func finish() -> (GatewayMembers, DocumentContent) {
            output.append(UInt8(ascii: "}"))
            return (own, DocumentContent(bytes: output.bytes, leadCount: leadCount))
        }

        private mutating func addOwn(
            _ name: String,
            ofMember member: JSONIndex.Member
        ) throws(RequestRefusal) {
            switch name {
            case "_id", "_rev", "_deleted", "_removed", "_attachments", "_revisions", "_exp": break
            default: throw .userProperty
            }
            let json = canonicalValue(of: member)
            switch name {
            case "_attachments":
                guard json.first == UInt8(ascii: "{") else { throw .badAttachments }
                own.attachments = json
            case "_revisions": own.revisions = json
            case "_exp": own.expiry = json
            default: try addScalar(name, json)
            }
        }

        private mutating func addScalar(_ name: String, _ json: [UInt8]) throws(RequestRefusal) {
            let value = json.withUnsafeBytes { JSONValue.parse(ByteView($0)) }
            switch (name, value) {
            case ("_id", .string(let id)): own.id = id
            case ("_rev", .string(let revision)): own.revision = revision
            // As absent, as in Sync Gateway.
            case ("_rev", _): break
            case ("_deleted", .bool(let claim)): own.deletion = claim
            case ("_removed", .bool(let claim)): own.isRemoved = claim
            default: throw .badMember(name)
            }
        }

        /// The canonical text of one value, written behind the content and taken off again.
        private mutating func canonicalValue(of member: JSONIndex.Member) -> [UInt8] {
            let mark = output.count
            writer.writeValue(of: member)
            defer { output.truncate(to: mark) }
            return output.view.dropFirst(mark).bytes
        }
    }
}
