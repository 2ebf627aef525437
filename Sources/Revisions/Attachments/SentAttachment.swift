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
    private init(
        _ member: JSONValue.Member,
        sha1: ([UInt8]) -> [UInt8]
    ) throws(Refusal) {
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
