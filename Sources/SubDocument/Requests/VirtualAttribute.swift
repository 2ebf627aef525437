package import Bytes
internal import JSON
package import Vocabulary

/// The values that virtual attributes and macros show besides the version.
package struct MacroContext: Sendable {
    package let uuid: VBucketUUID
    /// The clock that CAS values come from, in seconds since 1970.
    package let seconds: UInt64
    /// Whether the clock only counts, since the time of day is behind it.
    package let isLogical: Bool

    package init(uuid: VBucketUUID, seconds: UInt64, isLogical: Bool = false) {
        self.uuid = uuid
        self.seconds = seconds
        self.isLogical = isLogical
    }
}

/// The attributes that every document has without storing them.
package enum VirtualAttribute: Sendable {
    /// `$document`: the version's metadata.
    case document
    /// `$vbucket`: the clock that CAS values come from.
    case vBucket
    /// `$XTOC`: the keys of the document's attributes.
    case contents

    /// The attribute with this key; nil if there is none.
    package init?(_ key: ByteView) {
        switch key.text {
        case "$document": self = .document
        case "$vbucket": self = .vBucket
        case "$XTOC": self = .contents
        default: return nil
        }
    }

    /// The members of `$document`, as macros can name them.
    static let documentFields: Set<String> = [
        "CAS", "vbucket_uuid", "seqno", "revid", "exptime", "flags", "value_bytes", "datatype",
        "deleted", "last_modified", "value_crc32c",
    ]

    /// Whether the value at a virtual attribute's path needs the checksum of the whole body.
    package static func needsChecksum(_ path: ByteView) -> Bool {
        let text = path.text
        return text == "$document" || text.hasPrefix("$document.") && text.hasSuffix("crc32c")
    }

    /// The attribute's value as JSON; without the checksum unless it is needed.
    func value(
        of version: DocumentView,
        in context: MacroContext,
        withChecksum: Bool = true,
        listsSystemAttributes: Bool = true
    ) -> [UInt8] {
        JSONWriter.text { json in
            switch self {
            case .document:
                VirtualAttribute.write(version, context, withChecksum: withChecksum, to: &json)
            case .vBucket:
                json.object { json in
                    json.object("HLC") { json in
                        json.member("now", String(context.seconds))
                        json.member("mode", context.isLogical ? "logical" : "real")
                    }
                }
            case .contents:
                json.array { json in
                    guard let attributes = version.attributes else { return }
                    for (key, _) in attributes
                    where listsSystemAttributes || !XattrBlob.isSystemKey(key) {
                        json.value(utf8: key)
                    }
                }
            }
        }
    }

    private static func write(
        _ version: DocumentView,
        _ context: MacroContext,
        withChecksum: Bool,
        to json: inout JSONWriter
    ) {
        let meta = version.meta
        let body = version.body
        json.object { json in
            json.member("CAS", hexadecimal(meta.cas.value, digits: 16))
            json.member("vbucket_uuid", hexadecimal(context.uuid.value, digits: 16))
            json.member("seqno", hexadecimal(meta.seqno.value, digits: 16))
            json.member("revid", String(meta.revision))
            json.member("exptime", meta.expiry)
            json.member("flags", meta.flags)
            json.member("value_bytes", body.count)
            json.array("datatype") { json in
                json.value(version.isJSON ? "json" : "raw")
                if meta.datatype.contains(.xattr) { json.value("xattr") }
            }
            json.member("deleted", meta.isDeleted)
            json.member("last_modified", String(meta.cas.value / 1_000_000_000))
            guard withChecksum else { return }
            let checksum = UInt64(CRC32C.checksum(body))
            json.member("value_crc32c", hexadecimal(checksum, digits: 8))
        }
    }

    /// `0x` and the digits, with leading zeros.
    static func hexadecimal(_ number: UInt64, digits: Int) -> String {
        let text = String(number, radix: 16)
        return "0x" + String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
    }
}
