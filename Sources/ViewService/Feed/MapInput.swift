package import Bytes
internal import JSON
package import Vocabulary

/// The two arguments of a map function, as JSON text: `meta` and `doc`.
///
/// `meta` has the members that Couchbase Server's views have: `id`, `rev` (revision, then CAS, expiry
/// and flags as hexadecimal digits), `flags`, `expiration`, `type` (`json` or `base64`), `att_reason` if
/// that is `base64`, `vb`, `seq` and `cas` as strings, since a JavaScript number cannot hold every one of
/// them, and `xattrs`, an object of the extended attributes. `doc` is the body alone; one that is not JSON
/// is a string with its base64 form, so that of a tombstone is empty.
///
/// - A body is embedded as it is only if it is JSON. The datatype alone does not prove that: earlier
///   releases stored the one that a client declared, and such a text could add arguments to a call.
/// - Its buffers are reused: the views of one document are valid until the next call.
package final class MapInput {
    private let metaText = ByteWriter()
    private let bodyText = ByteWriter()
    private let validator = JSONValidator()

    package init() {}

    /// The arguments for one document.
    package struct Arguments {
        package let meta: ByteView
        package let body: ByteView
    }

    /// The arguments for a stored value, of a document or of a tombstone with attributes.
    ///
    /// - Returns: Nil if the key is not UTF-8: JavaScript has no string for it, so views omit the
    ///   document.
    package func arguments(
        _ document: DocumentMeta,
        vBucket: VBucketID,
        key: ByteView,
        value: ByteView
    ) -> Arguments? {
        guard let id = String(validating: key.buffer, as: UTF8.self) else { return nil }
        let body = XattrBlob.body(of: value, document.datatype)
        let isJSON = isJSON(body, document)
        metaText.removeAll()
        var json = JSONWriter(metaText)
        json.object { json in
            MapInput.write(id, document, isJSON: isJSON, to: &json)
            if !isJSON { json.member("att_reason", MapInput.binaryReason) }
            json.member("vb", "\(vBucket.number)")
            json.member("seq", "\(document.seqno.value)")
            json.member("cas", "\(document.cas.value)")
            json.object("xattrs") { json in write(attributesOf: value, document, to: &json) }
        }
        return Arguments(meta: metaText.view, body: text(of: body, isJSON: isJSON))
    }

    /// Couchbase Server's only value in map functions: its data service finds what is JSON.
    private static let binaryReason = "non-JSON mode"

    /// Whether a body is JSON; values that are not declared as JSON are not examined.
    private func isJSON(_ body: ByteView, _ document: DocumentMeta) -> Bool {
        document.datatype.contains(.json) && validator.isDocument(body)
    }

    /// Writes the attributes whose values are JSON: others would make the whole text invalid.
    private func write(
        attributesOf value: ByteView,
        _ document: DocumentMeta,
        to json: inout JSONWriter
    ) {
        guard document.datatype.contains(.xattr) else { return }
        for (key, value) in XattrBlob(stored: value) {
            guard let name = String(validating: key.buffer, as: UTF8.self),
                validator.isDocument(value)
            else { continue }
            json.member(name, raw: value)
        }
    }

    /// A document as a query's answer includes it (`include_docs`): `meta` without the members that
    /// only a map function reads.
    ///
    /// - Returns: Nil if the key is not UTF-8: no row can name the document.
    package func included(
        _ document: DocumentMeta,
        key: ByteView,
        value: ByteView
    ) -> Arguments? {
        guard let id = String(validating: key.buffer, as: UTF8.self) else { return nil }
        let body = XattrBlob.body(of: value, document.datatype)
        let isJSON = isJSON(body, document)
        metaText.removeAll()
        var json = JSONWriter(metaText)
        json.object { json in MapInput.write(id, document, isJSON: isJSON, to: &json) }
        return Arguments(meta: metaText.view, body: text(of: body, isJSON: isJSON))
    }

    private static func write(
        _ id: String,
        _ document: DocumentMeta,
        isJSON: Bool,
        to json: inout JSONWriter
    ) {
        json.member("id", id)
        json.member("rev", MapInput.revision(document))
        json.member("flags", document.flags)
        json.member("expiration", document.expiry)
        json.member("type", isJSON ? "json" : "base64")
    }

    /// The body, or a string with its base64 form.
    private func text(of value: ByteView, isJSON: Bool) -> ByteView {
        guard !isJSON else { return value }
        bodyText.removeAll()
        bodyText.append(UInt8(ascii: "\""))
        bodyText.append(Base64.encode(value))
        bodyText.append(UInt8(ascii: "\""))
        return bodyText.view
    }

    /// The revision's text: number, "-", then 32 hexadecimal digits of CAS, expiry and flags.
    static func revision(_ document: DocumentMeta) -> String {
        let number = "\(document.revision)-".utf8
        // In one piece: this is written for every document that is mapped.
        return String(unsafeUninitializedCapacity: number.count + 32) { output in
            var place = 0
            for byte in number {
                output[place] = byte
                place += 1
            }
            let rest = UInt64(document.expiry) << 32 | UInt64(document.flags)
            for part in [document.cas.value, rest] {
                for shift in stride(from: 60, through: 0, by: -4) {
                    let digit = UInt8(truncatingIfNeeded: part >> UInt64(shift) & 15)
                    output[place] = digit < 10 ? 0x30 + digit : 0x57 + digit
                    place += 1
                }
            }
            return place
        }
    }
}
