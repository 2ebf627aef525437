internal import Bytes
internal import JSON

/// The body of a view query: a JSON object whose members are further parameters, most often `keys`.
///
/// The values stay JSON text: a parsed number would lose digits, and keys may be many.
enum ViewQueryBody {
    /// One member for each parameter, in the order sent.
    case parameters([ViewParameter])
    /// Not a JSON object; a sentence for users.
    case invalid(String)

    /// Splits a body; an empty one has no parameters.
    static func parse(_ body: [UInt8]) -> ViewQueryBody {
        if body.allSatisfy(isBlank) { return .parameters([]) }
        guard body.withUnsafeBytes({ JSONGrammar.accepts(ByteView($0)) }) else {
            let start = String(decoding: body.prefix(shownBytesMax), as: UTF8.self)
            return .invalid("invalid UTF-8 JSON: \(start)")
        }
        var scanner = Splitter(bytes: body)
        guard let parameters = scanner.members() else {
            return .invalid("Request body must be a JSON object")
        }
        return .parameters(parameters)
    }

    /// Bytes of an invalid body that its refusal repeats.
    private static let shownBytesMax = 200

    private static func isBlank(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09
    }

    /// Splits a text that is known to be JSON, so that it needs only quotes and brackets.
    private struct Splitter {
        let bytes: [UInt8]
        private var offset = 0

        init(bytes: [UInt8]) {
            self.bytes = bytes
        }

        /// The members of the object; nil if the text is not an object.
        mutating func members() -> [ViewParameter]? {
            skipBlank()
            guard bytes[offset] == UInt8(ascii: "{") else { return nil }
            offset += 1
            var found: [ViewParameter] = []
            while true {
                skipBlank()
                switch bytes[offset] {
                case UInt8(ascii: "}"): return found
                case UInt8(ascii: ","): offset += 1
                default: found.append(member())
                }
            }
        }

        private mutating func member() -> ViewParameter {
            let quoted = value()
            let name = quoted.withUnsafeBytes { JSONValue.parse(ByteView($0))?.string }
            skipBlank()
            // The colon.
            offset += 1
            skipBlank()
            // A name with half of a surrogate pair has no string; no parameter is called so.
            return ViewParameter(name: name ?? "", value: .json(Array(value())))
        }

        /// Consumes one value.
        private mutating func value() -> ArraySlice<UInt8> {
            let first = offset
            switch bytes[offset] {
            case UInt8(ascii: "\""): skipString()
            case UInt8(ascii: "{"), UInt8(ascii: "["): skipBrackets()
            default: skipScalar()
            }
            return bytes[first..<offset]
        }

        private mutating func skipString() {
            offset += 1
            while bytes[offset] != UInt8(ascii: "\"") {
                offset += bytes[offset] == UInt8(ascii: "\\") ? 2 : 1
            }
            offset += 1
        }

        /// Consumes an object or an array.
        private mutating func skipBrackets() {
            var depth = 0
            repeat {
                switch bytes[offset] {
                case UInt8(ascii: "\""):
                    skipString()
                    continue
                case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
                case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
                default: break
                }
                offset += 1
            } while depth > 0
        }

        /// Consumes a number, `true`, `false` or `null`.
        private mutating func skipScalar() {
            let ends: [UInt8] = [UInt8(ascii: ","), UInt8(ascii: "}"), UInt8(ascii: "]")]
            while offset < bytes.count, !isBlank(bytes[offset]), !ends.contains(bytes[offset]) {
                offset += 1
            }
        }

        private mutating func skipBlank() {
            while isBlank(bytes[offset]) { offset += 1 }
        }
    }
}
