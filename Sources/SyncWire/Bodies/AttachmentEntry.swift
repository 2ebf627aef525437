package import Bytes
internal import JSON

/// An entry of `_attachments`: the metadata of an attachment, and where its bytes are.
package struct AttachmentEntry: Equatable, Sendable {
    /// Where the bytes are.
    package enum Source: Equatable, Sendable {
        /// In the entry (`data`), decoded from base64.
        case inline([UInt8])
        /// In a part of the multipart body (`follows`).
        case follows
        /// With the parent revision, or stored under the digest (`stub`).
        case stub
    }

    package let source: Source
    /// `sha1-` or `md5-` and base64.
    package var digest: String?
    /// The bytes of the attachment, decoded.
    package var length: Int?
    /// The generation of the revision that added the attachment; at least 1 in a stub.
    package var generation: Int?
    package var contentType: String?
    /// `gzip` if the bytes are compressed; then `encodedLength` are the compressed ones.
    package var encoding: String?
    package var encodedLength: Int?

    package init(source: Source) {
        self.source = source
    }

    /// Parses the member `_attachments`: entries by name, in the order of the names' bytes.
    ///
    /// - Throws: `.badAttachments` if it is no object of entries, `.badAttachmentName` for a name that is empty or
    ///   begins with `_`.
    package static func parse(
        _ json: [UInt8]
    ) throws(RequestRefusal) -> [(name: String, entry: AttachmentEntry)] {
        guard let value = json.withUnsafeBytes({ JSONValue.parse(ByteView($0)) }),
            let members = value.members
        else { throw .badAttachments }
        var entries: [(name: String, entry: AttachmentEntry)] = []
        for member in members {
            guard let first = member.name.utf8.first, first != UInt8(ascii: "_") else {
                throw .badAttachmentName(member.name)
            }
            entries.append((member.name, try AttachmentEntry(member.value)))
        }
        return entries
    }

    /// - Throws: `.badAttachments`.
    private init(_ value: JSONValue) throws(RequestRefusal) {
        guard value.members != nil else { throw .badAttachments }
        source = try AttachmentEntry.source(value)
        digest = try AttachmentEntry.text(value["digest"])
        contentType = try AttachmentEntry.text(value["content_type"])
        encoding = try AttachmentEntry.text(value["encoding"])
        length = try AttachmentEntry.count(value["length"])
        encodedLength = try AttachmentEntry.count(value["encoded_length"])
        generation = try AttachmentEntry.count(value["revpos"])
        if source == .stub, generation == 0 { throw .badAttachments }
    }

    /// - Throws: `.badAttachments` if there are no bytes, or `data` is no base64.
    private static func source(_ value: JSONValue) throws(RequestRefusal) -> Source {
        if let data = value["data"] {
            guard let text = data.string, let bytes = text.withView({ Base64.decode($0) }) else {
                throw .badAttachments
            }
            return .inline(bytes)
        }
        if value["follows"] == .bool(true) { return .follows }
        guard value["stub"] == .bool(true) else { throw .badAttachments }
        return .stub
    }

    /// - Throws: `.badAttachments`.
    private static func text(_ value: JSONValue?) throws(RequestRefusal) -> String? {
        guard let value, !value.isNull else { return nil }
        guard let text = value.string else { throw .badAttachments }
        return text
    }

    /// - Throws: `.badAttachments`.
    private static func count(_ value: JSONValue?) throws(RequestRefusal) -> Int? {
        guard let value, !value.isNull else { return nil }
        guard let number = value.double.flatMap(Int.init(exactly:)), number >= 0 else {
            throw .badAttachments
        }
        return number
    }

    /// Appends the entry as canonical JSON.
    package func append(to output: ByteWriter) {
        var hasMembers = false
        func begin(_ name: StaticString) {
            output.append(hasMembers ? ",\"" : "{\"")
            output.append(name)
            output.append("\":")
            hasMembers = true
        }
        func append(_ name: StaticString, _ text: String?) {
            guard let text else { return }
            begin(name)
            CanonicalJSON.append(string: text, to: output)
        }
        func append(_ name: StaticString, _ number: Int?) {
            guard let number else { return }
            begin(name)
            output.append(text: String(number))
        }
        append("content_type", contentType)
        if case .inline(let bytes) = source {
            begin("data")
            output.append("\"")
            output.append(bytes.withUnsafeBytes { Base64.encode(ByteView($0)) })
            output.append("\"")
        }
        append("digest", digest)
        append("encoded_length", encodedLength)
        append("encoding", encoding)
        if source == .follows {
            output.append(hasMembers ? ",\"follows\":true" : "{\"follows\":true")
        }
        hasMembers = hasMembers || source == .follows
        append("length", length)
        append("revpos", generation)
        if source == .stub { output.append(hasMembers ? ",\"stub\":true" : "{\"stub\":true") }
        output.append("}")
    }

    /// Canonical JSON of entries whose names are in the order of their bytes.
    package static func json(_ entries: [(name: String, entry: AttachmentEntry)]) -> [UInt8] {
        let output = ByteWriter()
        output.append("{")
        CanonicalJSON.appendList(entries, to: output) { name, entry in
            CanonicalJSON.append(string: name, to: output)
            output.append(":")
            entry.append(to: output)
        }
        output.append("}")
        return output.bytes
    }
}
