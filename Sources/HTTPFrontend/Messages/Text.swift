/// Bytes of a request as text.
///
/// Most are ASCII, which is recognised in a fraction of the time that the standard library's validation takes.
extension [UInt8] {
    /// The text; nil if the bytes are not UTF-8.
    var text: String? {
        isASCII
            ? String(decoding: self, as: UTF8.self) : String(validating: self, as: UTF8.self)
    }

    /// Whether the bytes are UTF-8.
    var isText: Bool { isASCII || String(validating: self, as: UTF8.self) != nil }

    private var isASCII: Bool { allSatisfy { $0 < 0x80 } }
}
