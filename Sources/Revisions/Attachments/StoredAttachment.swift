package import Bytes
package import JSON

/// The metadata of one attachment of a revision, as stored and as printed (S 5).
package struct StoredAttachment: Hashable, Sendable {
    package var name = ""
    /// The name of the blob: `sha1-` and the base64 of its SHA-1; other hashes in stubs of other
    /// databases.
    package var digest = ""
    /// The bytes of the attachment before encoding; nil if the author of an encoded one did not
    /// name it.
    package var length: Int?
    /// The generation of the revision that brought the content; at least 1.
    package var revpos = 1
    package var contentType: String?
    /// The encoding of the blob, in practice `gzip`; nil if it has none.
    package var encoding: String?
    /// The bytes of an encoded blob; nil without `encoding`.
    package var encodedLength: Int?

    package init() {}
}

extension StoredAttachment: CodedFields {
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&name, "name")
        try coder.field(&digest, "digest")
        try coder.field(&length, "length")
        try coder.field(&revpos, "revpos")
        try coder.field(&contentType, "content type")
        try coder.field(&encoding, "encoding")
        try coder.field(&encodedLength, "encoded length")
    }
}

extension StoredAttachment {
    /// How an attachment is printed in a document.
    package enum Form: Hashable, Sendable {
        /// Metadata only.
        case stub
        /// With its content, as base64.
        case inline(String)
        /// The content is a MIME part of its own.
        case follows
    }

    /// The metadata as JSON, with members in bytewise order as Sync Gateway prints them.
    package func json(_ form: Form = .stub) -> JSONValue {
        var members: [JSONValue.Member] = []
        func add(_ name: String, _ value: JSONValue?) {
            if let value { members.append(JSONValue.Member(name: name, value: value)) }
        }
        add("content_type", contentType.map(JSONValue.string))
        if case .inline(let data) = form { add("data", .string(data)) }
        add("digest", .string(digest))
        add("encoded_length", encodedLength.map(JSONValue.integer))
        add("encoding", encoding.map(JSONValue.string))
        if form == .follows { add("follows", .bool(true)) }
        add("length", length.map(JSONValue.integer))
        add("revpos", .integer(revpos))
        if form == .stub { add("stub", .bool(true)) }
        return .object(members)
    }

    /// The value of `_attachments`: an object with one member for each attachment, by name.
    package static func json(
        _ attachments: [StoredAttachment],
        form: (StoredAttachment) -> Form = { _ in .stub }
    ) -> JSONValue {
        .object(attachments.map { JSONValue.Member(name: $0.name, value: $0.json(form($0))) })
    }
}
