package import Bytes

extension Collation {
    /// Appends the JSON text of the sort key at the front of `key`, as JavaScript's
    /// `JSON.stringify` writes it, and returns the length of the sort key.
    ///
    /// Nil, with nothing appended, if no well-formed sort key is there. ICU's part of a string is
    /// skipped, not compared with the string.
    package static func appendJSON(ofSortKey key: ByteView, to output: ByteWriter) -> Int? {
        let first = output.count
        var decoder = SortKeyDecoder(key: key)
        if decoder.decode(to: output) { return decoder.offset }
        output.truncate(to: first)
        return nil
    }
}

/// Walks over one sort key and appends its JSON text, value by value, without recursion.
///
/// - It accepts only what `SortKeyEncoder` writes, except for ICU's part of strings, so that no two
///   accepted keys with equal ICU parts have the same text.
/// - It reads nothing behind the sort key: a row's other parts may follow.
struct SortKeyDecoder {
    private let key: ByteView
    private(set) var offset = 0
    private var brackets = BracketStack()

    init(key: ByteView) {
        self.key = key
    }

    /// Appends the text of one value; false, with undefined text appended, if it is malformed.
    mutating func decode(to output: ByteWriter) -> Bool {
        var needsComma = false
        while true {
            if !brackets.isEmpty {
                if consume(SortKeyTag.end) {
                    output.append(UInt8(ascii: brackets.isObject ? "}" : "]"))
                    brackets.pop()
                    if brackets.isEmpty { return true }
                    needsComma = true
                    continue
                }
                if needsComma { output.append(UInt8(ascii: ",")) }
                if brackets.isObject {
                    guard consume(SortKeyTag.string), decodeString(to: output) else { return false }
                    output.append(UInt8(ascii: ":"))
                }
            }
            switch decodeValue(to: output) {
            case .malformed: return false
            case .opened: needsComma = false
            case .complete:
                if brackets.isEmpty { return true }
                needsComma = true
            }
        }
    }

    private enum Step {
        case malformed
        /// The first element or member of a bracket must follow, or its end.
        case opened
        case complete
    }

    private mutating func decodeValue(to output: ByteWriter) -> Step {
        guard offset < key.count else { return .malformed }
        let tag = key[offset]
        offset += 1
        switch tag {
        case SortKeyTag.null: output.append("null")
        case SortKeyTag.no: output.append("false")
        case SortKeyTag.yes: output.append("true")
        case SortKeyTag.number: return decodeNumber(to: output) ? .complete : .malformed
        case SortKeyTag.string: return decodeString(to: output) ? .complete : .malformed
        case SortKeyTag.array: return open("[", isObject: false, to: output)
        case SortKeyTag.object: return open("{", isObject: true, to: output)
        default: return .malformed
        }
        return .complete
    }

    private mutating func open(
        _ bracket: Unicode.Scalar,
        isObject: Bool,
        to output: ByteWriter
    ) -> Step {
        guard brackets.depth < Collation.depthMax else { return .malformed }
        brackets.push(isObject: isObject)
        output.append(UInt8(ascii: bracket))
        return .opened
    }

    private mutating func decodeNumber(to output: ByteWriter) -> Bool {
        guard key.count - offset >= 8,
            let number = SortKeyNumber.decode(key.bigEndian(at: offset, as: UInt64.self))
        else { return false }
        offset += 8
        JSONNumber.append(number, to: output)
        return true
    }

    /// Skips ICU's part of a string and appends the string from its own bytes, with quotes.
    private mutating func decodeString(to output: ByteWriter) -> Bool {
        guard let middle = ZeroEscape.end(of: key, from: offset),
            let end = ZeroEscape.end(of: key, from: middle + 1)
        else { return false }
        offset = end + 1
        output.append(UInt8(ascii: "\""))
        guard appendText(of: key.slice(middle + 1, end - middle - 1), to: output) else {
            return false
        }
        output.append(UInt8(ascii: "\""))
        return true
    }

    /// Copies runs of plain bytes; escapes what JSON does not have unescaped, and lone surrogates.
    private func appendText(of bytes: ByteView, to output: ByteWriter) -> Bool {
        var plain = 0
        var position = 0
        while position < bytes.count {
            let byte = bytes[position]
            let surrogate = byte == 0xed ? surrogate(at: position, in: bytes) : nil
            if let surrogate {
                output.append(bytes.slice(plain, position - plain))
                JSONEscapes.appendEscape(ofUnit: surrogate, to: output)
                position += 3
                plain = position
                // The encoder makes one character of a pair.
                let isPair =
                    UTF16.isLeadSurrogate(surrogate) && position < bytes.count
                    && bytes[position] == 0xed
                let next = isPair ? self.surrogate(at: position, in: bytes) : nil
                if let next, UTF16.isTrailSurrogate(next) { return false }
            } else if byte >= 0x80 {
                let count = JSONScanner.multibyteCount(at: position, in: bytes)
                guard count > 0 else { return false }
                position += count
            } else if JSONEscapes.needsEscape(byte) {
                output.append(bytes.slice(plain, position - plain))
                guard let length = appendEscape(at: position, in: bytes, to: output) else {
                    return false
                }
                position += length
                plain = position
            } else {
                position += 1
            }
        }
        output.append(bytes.dropFirst(plain))
        return true
    }

    /// Appends the escape of the character at `position`, and returns the number of its bytes; nil if
    /// they are no whole escape of 00 or 01.
    private func appendEscape(
        at position: Int,
        in bytes: ByteView,
        to output: ByteWriter
    ) -> Int? {
        guard bytes[position] == ZeroEscape.escape else {
            JSONEscapes.appendEscape(of: bytes[position], to: output)
            return 1
        }
        guard let byte = ZeroEscape.unescaped(at: position, in: bytes) else { return nil }
        JSONEscapes.appendEscape(of: byte, to: output)
        return 2
    }

    /// The surrogate whose three bytes are at `position`, the first of which is ED; nil if the bytes
    /// are a character or ill-formed.
    private func surrogate(at position: Int, in bytes: ByteView) -> UInt16? {
        guard bytes.count - position >= 3, 0xa0...0xbf ~= bytes[position + 1],
            bytes[position + 2] & 0xc0 == 0x80
        else { return nil }
        return 0xd000 | UInt16(bytes[position + 1] & 0x3f) << 6 | UInt16(bytes[position + 2] & 0x3f)
    }

    private mutating func consume(_ byte: UInt8) -> Bool {
        guard offset < key.count, key[offset] == byte else { return false }
        offset += 1
        return true
    }
}
