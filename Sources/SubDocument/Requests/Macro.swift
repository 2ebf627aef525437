internal import Bytes

/// A text that a write replaces by a property of the version that it makes, or of the one before.
enum Macro: Equatable {
    case cas
    case seqno
    /// The CRC-32C of the new body.
    case checksum
    /// `${$document}` or a member of it, of the version before.
    case document(field: String?)

    enum Outcome: Equatable {
        case macro(Macro)
        /// The request is invalid for any document.
        case unknown
        /// A macro of a member of `$document` that does not exist: its path fails.
        case unknownVirtual
    }

    /// Parses a path's value, which has to be exactly the JSON string of a macro.
    static func parse(_ value: ByteView) -> Outcome {
        switch value.text {
        case #""${Mutation.CAS}""#: return .macro(.cas)
        case #""${Mutation.seqno}""#: return .macro(.seqno)
        case #""${Mutation.value_crc32c}""#: return .macro(.checksum)
        case #""${$document}""#: return .macro(.document(field: nil))
        case let text:
            guard text.hasPrefix(#""${$document"#), text.hasSuffix(#"}""#) else { return .unknown }
            let prefix = #""${$document."#
            guard text.hasPrefix(prefix) else { return .unknownVirtual }
            let field = String(text.dropFirst(prefix.count).dropLast(2))
            return VirtualAttribute.documentFields.contains(field)
                ? .macro(.document(field: field)) : .unknownVirtual
        }
    }
}

/// Binary values in attributes, which are JSON: a string with a mark and base64, as Couchbase Server
/// stores them.
enum BinaryValue {
    private static let mark = Array("cb-content-base64-encoded:".utf8)

    /// The JSON string of any bytes.
    static func encode(_ value: ByteView) -> [UInt8] {
        let quote = UInt8(ascii: "\"")
        return [quote] + mark + Base64.encode(value) + [quote]
    }

    /// The bytes of a JSON string; nil if it is none of `encode`.
    static func decode(_ text: ByteView) -> [UInt8]? {
        let start = mark.count + 1
        guard text.count > start, text[0] == UInt8(ascii: "\""),
            text[text.count - 1] == UInt8(ascii: "\""),
            mark.withUnsafeBytes({ text.slice(1, mark.count).equals(ByteView($0)) })
        else { return nil }
        return Base64.decode(text.slice(start, text.count - start - 1))
    }

    /// Whether a value that a client writes has no mark, or a well-formed text behind its first one.
    static func isWellFormed(_ value: ByteView) -> Bool {
        guard let start = MacroPlaceholders.offset(of: mark, in: value, from: 0) else {
            return true
        }
        let quote = UInt8(ascii: "\"")
        let text = value.dropFirst(start + mark.count)
        let end = text.buffer.firstIndex(of: quote)
        // Only the whole value may lack the quotes.
        guard end != nil || start == 0 else { return false }
        return Base64.decode(text.slice(0, end ?? text.count)) != nil
    }
}
