internal import Bytes
internal import JSON
internal import Orchestration
internal import Vocabulary

/// Documents and their keys as JSON.
enum DocumentJSON {
    /// A key as JSON members.
    ///
    /// A key that is UTF-8 is one member, its text. Any other is null, so that no reader confuses
    /// it with the key of another document; a second member has its bytes percent-encoded, as in
    /// the path of a document.
    ///
    /// - Parameters:
    ///   - member: `id` or `key`; the second member is called `encodedId` or `encodedKey`.
    ///   - key: The key's bytes.
    /// - Returns: One member, or two if the key is not UTF-8.
    static func name(_ member: String, of key: [UInt8]) -> [(String, JSONText)] {
        if let text = String(validating: key, as: UTF8.self) { return [(member, .string(text))] }
        let encoded = "encoded" + member.prefix(1).uppercased() + member.dropFirst()
        return [(member, .null), (encoded, .string(URLCoding.encode(key)))]
    }

    /// The body of a document, and its extended attributes beside it as Couchbase Server's `xattrs`.
    struct Parts {
        /// The value without attributes.
        let body: [UInt8]
        /// Whether the body can be embedded in a JSON reply.
        let isJSON: Bool
        /// The member `xattrs`; empty if the document has no attributes that may be shown.
        ///
        /// A value that is not JSON is a string with its Base64 form.
        let attributes: [(String, JSONText)]

        /// - Parameters:
        ///   - document: The stored form.
        ///   - showsSystemAttributes: Whether attributes that begin with `_` are included.
        init(_ document: DocumentCopy, showsSystemAttributes: Bool) {
            guard document.meta.datatype.contains(.xattr) else {
                (body, attributes) = (document.value, [])
                isJSON = DocumentJSON.isJSON(body)
                return
            }
            var (body, members) = ([UInt8](), [(String, JSONText)]())
            document.value.withUnsafeBytes { bytes in
                let blob = XattrBlob(stored: ByteView(bytes))
                body = blob.body.bytes
                for (key, value) in blob
                where showsSystemAttributes || !XattrBlob.isSystemKey(key) {
                    let value = value.bytes
                    let text =
                        DocumentJSON.isJSON(value)
                        ? JSONText.rendered(value) : DocumentJSON.base64(value)
                    members.append((key.text, text))
                }
            }
            self.body = body
            isJSON = DocumentJSON.isJSON(body)
            attributes = members.isEmpty ? [] : [("xattrs", .object(members))]
        }
    }

    static func meta(_ key: [UInt8], _ meta: DocumentMeta, isJSON: Bool) -> JSONText {
        var members = name("id", of: key)
        members += [
            ("rev", .string(revision(meta))),
            ("expiration", .number(meta.expiry)),
            ("flags", .number(meta.flags)),
        ]
        if isJSON { members.append(("type", "json")) }
        return .object(members)
    }

    /// The version of a document: the number of its changes, and in hexadecimal digits its CAS, expiry and
    /// flags.
    static func revision(_ meta: DocumentMeta) -> String {
        let numbers = hex(meta.cas.value, 16) + hex(UInt64(meta.expiry), 8)
        return "\(meta.revision)-\(numbers)\(hex(UInt64(meta.flags), 8))"
    }

    /// The CAS in the text of a version; nil if the text has another form, or names no CAS.
    static func cas(ofRevision text: String) -> CAS? {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[1].utf8.count == 32,
            let cas = UInt64(parts[1].prefix(16), radix: 16), CAS(cas) != .none
        else { return nil }
        return CAS(cas)
    }

    /// Whether a value can be embedded in a JSON reply unchanged: it is a JSON document, and so
    /// UTF-8.
    static func isJSON(_ value: [UInt8]) -> Bool {
        value.withUnsafeBytes { JSONValidator().isDocument(ByteView($0)) }
    }

    static func base64(_ value: [UInt8]) -> JSONText {
        let text = value.withUnsafeBytes { Base64.encode(ByteView($0)) }
        return .string(String(decoding: text, as: UTF8.self))
    }

    private static func hex(_ number: UInt64, _ digits: Int) -> String {
        let text = String(number, radix: 16)
        return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
    }
}
