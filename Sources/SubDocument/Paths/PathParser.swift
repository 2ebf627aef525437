internal import Bytes
internal import Vocabulary

/// Splits the text of a path into components.
///
/// It accepts what Couchbase Server accepts, except for three forms that look like mistakes: a dot at
/// the end, an empty index `[]`, and bytes that are not UTF-8, which would make a document invalid.
struct PathParser {
    private let text: ByteView
    private var offset = 0
    private(set) var pieces = InlineArray<32, PathPiece>(repeating: PathPiece())
    private(set) var count = 0

    /// No document has an array of so many elements.
    private static let indexMax = 1 << 31

    init(_ text: ByteView) {
        self.text = text
    }

    /// Parses the text; returns why it is no path, or nil.
    mutating func parse() -> PathFailure? {
        guard PathParser.isUTF8(text) else { return .invalidPath }
        while offset < text.count {
            guard count < DocumentPath.depthMax else { return .pathTooLong }
            let isValid = text[offset] == UInt8(ascii: "[") ? parseIndex() : parseKey()
            guard isValid, skipSeparator() else { return .invalidPath }
        }
        return nil
    }

    /// Whether the first component can be the key of an extended attribute.
    var startsWithAttributeKey: Bool {
        guard count > 0, pieces[0].kind == .key, pieces[0].offset == 0 else { return false }
        return pieces[0].length <= Limits.xattrKeyBytesMax
    }

    static func isUTF8(_ text: ByteView) -> Bool {
        let bytes = text.buffer.assumingMemoryBound(to: UInt8.self)
        guard bytes.contains(where: { $0 >= 0x80 }) else { return true }
        return (try? UTF8Span(validating: bytes.span)) != nil
    }

    /// After a component: a dot before the next one, which may be missing before a bracket.
    private mutating func skipSeparator() -> Bool {
        guard offset < text.count else { return true }
        if text[offset] == UInt8(ascii: ".") {
            offset += 1
            return offset < text.count
        }
        return text[offset] == UInt8(ascii: "[")
    }

    /// Parses `[n]` or `[-1]`.
    private mutating func parseIndex() -> Bool {
        offset += 1
        let start = offset
        var index = 0
        while offset < text.count, text[offset] &- UInt8(ascii: "0") < 10 {
            index = min(index * 10 + Int(text[offset] - UInt8(ascii: "0")), PathParser.indexMax)
            offset += 1
        }
        if offset > start {
            pieces[count] = PathPiece(kind: .index, index: UInt32(index))
        } else {
            guard text.count - offset >= 2, text[offset] == UInt8(ascii: "-"),
                text[offset + 1] == UInt8(ascii: "1")
            else { return false }
            offset += 2
            pieces[count] = PathPiece(kind: .last)
        }
        guard offset < text.count, text[offset] == UInt8(ascii: "]") else { return false }
        offset += 1
        count += 1
        return true
    }

    /// Parses a key up to the dot or the bracket behind it.
    private mutating func parseKey() -> Bool {
        let start = offset
        var (backticks, hasEscapes, isQuoted) = (0, false, false)
        scan: while offset < text.count {
            switch text[offset] {
            case UInt8(ascii: "`"):
                backticks += 1
                isQuoted.toggle()
            case UInt8(ascii: "."), UInt8(ascii: "["):
                if !isQuoted { break scan }
            case UInt8(ascii: "]"):
                if !isQuoted { return false }
            case UInt8(ascii: "\\"):
                offset += 1
                guard offset < text.count, StringContent.isShortEscape(text[offset]) else {
                    return false
                }
                hasEscapes = true
            case UInt8(ascii: "\""), ..<0x20: return false
            default: break
            }
            offset += 1
        }
        guard !isQuoted else { return false }
        return appendKey(
            text.slice(start, offset - start),
            at: start,
            backticks: backticks,
            hasEscapes: hasEscapes
        )
    }

    private mutating func appendKey(
        _ key: ByteView,
        at start: Int,
        backticks: Int,
        hasEscapes: Bool
    ) -> Bool {
        // Two backticks enclose nothing, and more of them enclose backticks.
        guard !key.isEmpty, key.count > 2 || backticks < 2 else { return false }
        let backtick = UInt8(ascii: "`")
        // Outer backticks are removed here, so that most quoted keys are plain.
        let isEnclosed = key.count > 2 && key[0] == backtick && key[key.count - 1] == backtick
        let isPlain = backticks == (isEnclosed ? 2 : 0) && !hasEscapes
        let margin = isEnclosed ? 1 : 0
        pieces[count] = PathPiece(
            kind: isPlain ? .key : .escapedKey,
            offset: UInt16(start + margin),
            length: UInt16(key.count - 2 * margin)
        )
        count += 1
        return true
    }
}
