package import Bytes
package import JSON

/// JSON as Go writes a decoded map: the text that revision digests are made of, and that answers have.
///
/// Names are in the order of their bytes, the last of equal names counts, and there are no blanks. `<`, `>`,
/// `&`, U+2028 and U+2029 are escaped, since Go protects texts that are embedded in HTML. Ill-formed bytes and
/// lone surrogates are U+FFFD.
package enum CanonicalJSON {
    /// How numbers are written.
    package enum Numbers: Sendable {
        /// As doubles in their shortest text, `1e+21` and `1e-7` beyond it: the dialect 1.4. Integers above 2^53 lose
        /// digits, and numbers beyond a double are refused.
        case doubles
        /// As they were sent: later releases, which keep them as text.
        case literals
    }

    /// Appends the canonical text of `json`, any JSON value, to `output`.
    ///
    /// - Throws: `.badJSON` or `.tooDeep`; then the end of `output` is unchanged.
    package static func append(
        _ json: ByteView,
        numbers: Numbers = .doubles,
        to output: ByteWriter
    ) throws(RequestRefusal) {
        let index = try index(json, numbers: numbers)
        var writer = CanonicalWriter(index: index, numbers: numbers, output: output)
        writer.writeRoot()
    }

    /// The canonical text of `json`.
    ///
    /// - Throws: `.badJSON` or `.tooDeep`.
    package static func text(
        _ json: ByteView,
        numbers: Numbers = .doubles
    ) throws(RequestRefusal) -> [UInt8] {
        let output = ByteWriter(capacity: json.count)
        try append(json, numbers: numbers, to: output)
        return output.bytes
    }

    /// The canonical text of a value.
    package static func text(of value: JSONValue) -> [UInt8] {
        let json = JSONWriter.text { $0.value(value) }
        let found = json.withUnsafeBytes { try? text(ByteView($0), numbers: .literals) }
        guard let found else { preconditionFailure("a value of JSON has a canonical text") }
        return found
    }

    /// Appends a string in quotes; ill-formed UTF-8 is repaired.
    package static func append(string: String, to output: ByteWriter) {
        string.withView { append(wellFormed: $0, to: output) }
    }

    /// Appends what `body` writes for each element, with commas between.
    static func appendList<Element>(
        _ elements: some Sequence<Element>,
        to output: ByteWriter,
        _ body: (Element) -> Void
    ) {
        var isFirst = true
        for element in elements {
            if !isFirst { output.append(UInt8(ascii: ",")) }
            isFirst = false
            body(element)
        }
    }

    /// Appends an array of strings.
    static func append(strings: [String], to output: ByteWriter) {
        output.append(UInt8(ascii: "["))
        appendList(strings, to: output) { append(string: $0, to: output) }
        output.append(UInt8(ascii: "]"))
    }

    /// The index of a request's JSON.
    ///
    /// - Throws: `.badJSON` or `.tooDeep`.
    static func index(_ json: ByteView, numbers: Numbers) throws(RequestRefusal) -> JSONIndex {
        do {
            return try JSONIndex(json, depthMax: SyncLimits.depthMax, numbers: numbers)
        } catch {
            switch error {
            case .notJSON: throw .badJSON
            case .tooDeep: throw .tooDeep
            }
        }
    }

    /// Appends well-formed UTF-8 in quotes.
    ///
    /// The short escapes are those of Go before 1.22: the releases of which devices keep digests wrote
    /// backspace and form feed as `\u0008` and `\u000c`.
    static func append(wellFormed utf8: ByteView, to output: ByteWriter) {
        output.append(UInt8(ascii: "\""))
        var plain = 0
        var offset = 0
        while offset < utf8.count {
            let length = escapedLength(at: offset, in: utf8)
            if length > 0 {
                output.append(utf8.slice(plain, offset - plain))
                appendEscape(utf8.slice(offset, length), to: output)
                plain = offset + length
            }
            offset += max(length, 1)
        }
        output.append(utf8.dropFirst(plain))
        output.append(UInt8(ascii: "\""))
    }

    /// The bytes of the character at `offset` if it needs an escape; else 0.
    private static func escapedLength(at offset: Int, in utf8: ByteView) -> Int {
        switch utf8[offset] {
        case ..<0x20, UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "<"), UInt8(ascii: ">"),
            UInt8(ascii: "&"):
            return 1
        case 0xe2:
            // U+2028 and U+2029 are the bytes e2 80 a8 and e2 80 a9.
            guard utf8.count - offset >= 3, utf8[offset + 1] == 0x80 else { return 0 }
            return utf8[offset + 2] & 0xfe == 0xa8 ? 3 : 0
        default: return 0
        }
    }

    private static func appendEscape(_ character: ByteView, to output: ByteWriter) {
        switch character[0] {
        case UInt8(ascii: "\""): output.append("\\\"")
        case UInt8(ascii: "\\"): output.append("\\\\")
        case UInt8(ascii: "\n"): output.append("\\n")
        case UInt8(ascii: "\r"): output.append("\\r")
        case UInt8(ascii: "\t"): output.append("\\t")
        case 0xe2:
            output.append("\\u202")
            output.append(character[2] == 0xa8 ? UInt8(ascii: "8") : UInt8(ascii: "9"))
        default:
            output.append("\\u00")
            for digit in [character[0] >> 4, character[0] & 0xf] {
                output.append(digit < 10 ? 0x30 + digit : 0x57 + digit)
            }
        }
    }
}

/// Writes values of an indexed text in canonical form, without recursion.
struct CanonicalWriter {
    private enum Bracket {
        case array
        /// An object that is written in the order of the text.
        case sortedObject
        /// An object whose members are written in their order; `members` are those that are not yet written.
        case object(end: Int, nextObject: Int, members: ArraySlice<JSONIndex.Member>)
    }

    private let index: JSONIndex
    private let numbers: CanonicalJSON.Numbers
    private let output: ByteWriter
    private let scratch = ByteWriter()
    private var scanner: JSONScanner
    private var nextObject = 0
    private var brackets: [Bracket] = []

    init(index: JSONIndex, numbers: CanonicalJSON.Numbers, output: ByteWriter) {
        self.index = index
        self.numbers = numbers
        self.output = output
        scanner = JSONScanner(view: index.text)
    }

    mutating func writeRoot() {
        write(from: 0, firstObject: 0)
    }

    /// Writes a member's value.
    mutating func writeValue(of member: JSONIndex.Member) {
        write(from: Int(member.valueStart), firstObject: Int(member.firstObject))
    }

    func writeName(of member: JSONIndex.Member) {
        CanonicalJSON.append(wellFormed: index.view(member.name), to: output)
        output.append(UInt8(ascii: ":"))
    }

    private mutating func write(from offset: Int, firstObject: Int) {
        move(to: offset)
        nextObject = firstObject
        repeat {
            if beginValue() { endValues() }
        } while !brackets.isEmpty
    }

    private mutating func move(to offset: Int) {
        scanner = JSONScanner(view: index.text, offset: offset, allowsIllFormedText: true)
    }

    /// Writes a scalar or an opening bracket; returns whether a value is complete.
    private mutating func beginValue() -> Bool {
        scanner.skipBlank()
        let start = scanner.offset
        switch scanner.peek {
        case UInt8(ascii: "{"): return beginObject()
        case UInt8(ascii: "["):
            _ = scanner.consume("[")
            scanner.skipBlank()
            output.append(UInt8(ascii: "["))
            brackets.append(.array)
            // An empty array ends here: its closing bracket is written with the others.
            return scanner.peek == UInt8(ascii: "]")
        case UInt8(ascii: "\""): writeString()
        case UInt8(ascii: "t"): consume(literal: "true")
        case UInt8(ascii: "f"): consume(literal: "false")
        case UInt8(ascii: "n"): consume(literal: "null")
        default:
            _ = scanner.consumeNumber()
            writeNumber(index.text.slice(start, scanner.offset - start))
        }
        return true
    }

    private mutating func beginObject() -> Bool {
        let object = index.objects[nextObject]
        nextObject += 1
        output.append(UInt8(ascii: "{"))
        guard !object.isSorted else {
            _ = scanner.consume("{")
            scanner.skipBlank()
            brackets.append(.sortedObject)
            if scanner.peek == UInt8(ascii: "}") { return true }
            writeTextName()
            return false
        }
        var members = index.members(of: object)
        let first = members.removeFirst()
        brackets.append(
            .object(end: Int(object.end), nextObject: Int(object.nextObject), members: members)
        )
        begin(first)
        return false
    }

    /// Writes the closing brackets behind a complete value, up to the next value.
    private mutating func endValues() {
        while let innermost = brackets.last {
            switch innermost {
            case .array, .sortedObject:
                scanner.skipBlank()
                if scanner.consume(",") {
                    output.append(UInt8(ascii: ","))
                    if case .sortedObject = innermost { writeTextName() }
                    return
                }
                output.append(scanner.peek)
                move(to: scanner.offset + 1)
            case .object(let end, let following, var members):
                if let next = members.popFirst() {
                    brackets[brackets.count - 1] = .object(
                        end: end,
                        nextObject: following,
                        members: members
                    )
                    output.append(UInt8(ascii: ","))
                    return begin(next)
                }
                output.append(UInt8(ascii: "}"))
                move(to: end)
                nextObject = following
            }
            brackets.removeLast()
        }
    }

    private mutating func begin(_ member: JSONIndex.Member) {
        writeName(of: member)
        move(to: Int(member.valueStart))
        nextObject = Int(member.firstObject)
    }

    /// Writes the name that is next in the text, and moves behind its colon.
    private mutating func writeTextName() {
        scanner.skipBlank()
        writeString()
        scanner.skipBlank()
        _ = scanner.consume(":")
        output.append(UInt8(ascii: ":"))
    }

    private mutating func writeString() {
        let start = scanner.offset
        _ = scanner.consumeString()
        let quoted = index.text.slice(start, scanner.offset - start)
        // Most strings are copied as they are.
        if quoted.buffer.allSatisfy(CanonicalWriter.isPlain) { return output.append(quoted) }
        scratch.removeAll(keepingAtMost: 64 << 10)
        JSONEscapes.append(decoded: quoted.slice(1, quoted.count - 2), to: scratch)
        CanonicalJSON.append(wellFormed: scratch.view, to: output)
    }

    /// Whether a byte of a valid string is the same in canonical text.
    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "\\"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "&"), 0x80...:
            false
        default: true
        }
    }

    private mutating func consume(literal: StaticString) {
        _ = scanner.consume(literal: literal)
        output.append(literal)
    }

    private func writeNumber(_ text: ByteView) {
        if numbers == .literals { return output.append(text) }
        let number = JSONNumber.value(of: text)
        // JavaScript has no minus zero in texts, Go has.
        if number == 0, number.sign == .minus { output.append(UInt8(ascii: "-")) }
        JSONNumber.append(number, to: output)
    }
}
