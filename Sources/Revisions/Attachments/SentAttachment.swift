internal import Bytes
package import JSON
package import SyncWire

/// One member of `_attachments` in a request.
package struct SentAttachment: Hashable, Sendable {
    package enum Content: Hashable, Sendable {
        /// The attachment of an ancestor, or of another database (`stub`).
        case stub
        /// A MIME part that follows; `AttachmentParts.match` replaces it.
        case follows
        case blob(AttachmentBlob)
        /// Neither data nor a stub.
        case missing
    }

    package let name: String
    package var content: Content
    /// The metadata in the request; its `name` is `name`, and a `revpos` of 0 means none.
    package var claim: StoredAttachment

    /// Parses the value of `_attachments`.
    ///
    /// - Parameters:
    ///   - value: The member; nil or null if there is none.
    ///   - sha1: The SHA-1 of bytes, 20 bytes.
    /// - Returns: The attachments by name. If a name occurs twice, the last one counts, as in most
    ///   parsers.
    /// - Throws: `Refusal` if the form or base64 data is invalid, or a name begins with `_`.
    package static func parse(
        _ value: JSONValue?,
        sha1: ([UInt8]) -> [UInt8]
    ) throws(Refusal) -> [SentAttachment] {
        guard let value, !value.isNull else { return [] }
        guard let members = value.members else { throw .invalidAttachments }
        var found: [String: SentAttachment] = [:]
        for member in members {
            if member.name.hasPrefix("_") { throw .invalidAttachmentName(member.name) }
            found[member.name] = try SentAttachment(member, sha1: sha1)
        }
        return found.values.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
    }

    /// - Throws: `Refusal` if the metadata is no object, or its data not base64.
    private init(_ member: JSONValue.Member, sha1: ([UInt8]) -> [UInt8]) throws(Refusal) {
        let value = member.value
        guard value.members != nil else { throw .invalidAttachments }
        name = member.name
        claim = StoredAttachment()
        claim.name = name
        claim.digest = value["digest"]?.string ?? ""
        claim.length = value["length"]?.integral
        claim.revpos = value["revpos"]?.integral ?? 0
        claim.contentType = value["content_type"]?.string
        claim.encoding = value["encoding"]?.string
        claim.encodedLength = value["encoded_length"]?.integral
        if let data = value["data"], !data.isNull {
            content = .blob(try AttachmentBlob(base64: data, sha1: sha1))
        } else if value["stub"] == .bool(true) {
            content = .stub
        } else {
            content = value["follows"] == .bool(true) ? .follows : .missing
        }
    }
}

/// The content of a new attachment.
package struct AttachmentBlob: Hashable, Sendable {
    /// `sha1-` and the base64 of the SHA-1.
    package let digest: String
    /// The bytes of the blob.
    package let length: Int
    /// Nil if the blob is stored already, as it came in a MIME part.
    package let bytes: [UInt8]?

    package init(digest: String, length: Int, bytes: [UInt8]?) {
        self.digest = digest
        self.length = length
        self.bytes = bytes
    }

    /// - Throws: `Refusal` if `data` is no string of base64.
    init(base64 data: JSONValue, sha1: ([UInt8]) -> [UInt8]) throws(Refusal) {
        guard let string = data.string else { throw .invalidAttachmentData(data) }
        // Encoders of MIME break lines, and Sync Gateway's decoder ignores it.
        let text = string.utf8.filter { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        let decoded = text.withUnsafeBytes { Base64.decode(ByteView($0)) }
        guard let bytes = decoded else { throw .invalidAttachmentData }
        let name = sha1(bytes).withUnsafeBytes { Base64.encode(ByteView($0)) }
        self.init(
            digest: "sha1-" + String(decoding: name, as: UTF8.self),
            length: bytes.count,
            bytes: bytes
        )
    }
}

extension JSONValue {
    /// A number without fraction, also if it is written with one; nil for anything else.
    fileprivate var integral: Int? { int ?? double.flatMap { Int(exactly: $0) } }
}

/// Which MIME part is the content of which attachment.
///
/// Parts are matched by digest, in any order (Sync Gateway). Attachments without digest get the
/// remaining parts in their order (CouchDB, nano).
package enum AttachmentParts {
    /// A MIME part whose content is stored.
    package struct Part: Hashable, Sendable {
        /// `sha1-` and base64.
        package let sha1: String
        /// `md5-` and base64.
        package let md5: String
        package let length: Int

        package init(sha1: String, md5: String, length: Int) {
            self.sha1 = sha1
            self.md5 = md5
            self.length = length
        }
    }

    /// The attachments with the contents of the parts that follow the document.
    ///
    /// - Parameters:
    ///   - parts: All parts but the document's, in their order.
    ///   - attachments: The attachments of the request.
    ///   - order: The names of attachments in the order of the document's text; names that are
    ///     missing come last.
    /// - Returns: The attachments, with blobs for all parts.
    /// - Throws: `Refusal` if a part fits no attachment, has another length, or their numbers
    ///   differ.
    package static func match(
        _ parts: [Part],
        to attachments: [SentAttachment],
        order: [String]
    ) throws(Refusal) -> [SentAttachment] {
        var matched = attachments
        let count = attachments.count { $0.content == .follows }
        let places = Dictionary(order.enumerated().map { ($1, $0) }) { first, _ in first }
        let inOrder = matched.indices.sorted {
            places[matched[$0].name] ?? .max < places[matched[$1].name] ?? .max
        }
        for (number, part) in parts.enumerated() {
            guard number < count else { throw .tooManyParts(expected: count + 1) }
            let open = inOrder.filter { matched[$0].content == .follows }
            let byDigest = open.first { [part.sha1, part.md5].contains(matched[$0].claim.digest) }
            guard let place = byDigest ?? open.first(where: { matched[$0].claim.digest.isEmpty })
            else { throw .unexpectedPart(number + 2) }
            let claim = matched[place].claim
            if let expected = claim.encodedLength ?? claim.length, expected != part.length {
                throw .lengthMismatch(claim.name, read: part.length, expected: expected)
            }
            matched[place].content = .blob(
                AttachmentBlob(digest: part.sha1, length: part.length, bytes: nil)
            )
        }
        guard parts.count == count else { throw .tooFewParts(expected: count, read: parts.count) }
        return matched
    }
}
