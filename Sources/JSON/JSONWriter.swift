package import Bytes

/// Writes JSON text, for cluster maps, REST answers and dumps.
///
/// - Brackets balance, because each pair encloses a closure. The writer adds the commas.
/// - The text is UTF-8 without blanks. Ill-formed bytes are repaired, so the text is always valid.
package struct JSONWriter {
    package let output: ByteWriter
    private var needsComma = false

    package init(_ output: ByteWriter) {
        self.output = output
    }

    /// Returns the text that `body` writes.
    package static func text(_ body: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter(ByteWriter())
        body(&writer)
        return writer.output.bytes
    }

    // MARK: Brackets

    package mutating func object(_ body: (inout JSONWriter) -> Void) {
        bracket("{", "}", body: body)
    }

    package mutating func array(_ body: (inout JSONWriter) -> Void) {
        bracket("[", "]", body: body)
    }

    package mutating func object(_ name: String, _ body: (inout JSONWriter) -> Void) {
        self.name(name)
        object(body)
    }

    package mutating func array(_ name: String, _ body: (inout JSONWriter) -> Void) {
        self.name(name)
        array(body)
    }

    /// Writes a member's name; the caller must write one value next.
    package mutating func name(_ name: String) {
        separate()
        appendQuoted(name)
        output.append(UInt8(ascii: ":"))
        needsComma = false
    }

    // MARK: Values

    package mutating func value(_ text: String) {
        separate()
        appendQuoted(text)
    }

    /// Writes text that may be ill-formed UTF-8, for example a key.
    package mutating func value(utf8 text: ByteView) {
        // Most texts are ASCII, which needs no repair and so no string.
        guard text.buffer.allSatisfy({ $0 < 0x80 }) else { return value(text.text) }
        separate()
        appendQuoted(text)
    }

    package mutating func value(_ number: some BinaryInteger) {
        separate()
        output.append(text: String(number))
    }

    /// Writes a number; null for infinity and NaN, which JSON does not have.
    package mutating func value(_ number: Double) {
        guard number.isFinite else { return null() }
        separate()
        output.append(text: "\(number)")
    }

    package mutating func value(_ claim: Bool) {
        separate()
        if claim { output.append("true") } else { output.append("false") }
    }

    package mutating func null() {
        separate()
        output.append("null")
    }

    /// Copies a value that is JSON already, without checking it.
    package mutating func raw(_ json: ByteView) {
        separate()
        output.append(json)
    }

    // MARK: Members

    package mutating func member(_ name: String, _ text: String) {
        self.name(name)
        value(text)
    }

    package mutating func member(_ name: String, _ number: some BinaryInteger) {
        self.name(name)
        value(number)
    }

    package mutating func member(_ name: String, _ number: Double) {
        self.name(name)
        value(number)
    }

    package mutating func member(_ name: String, _ claim: Bool) {
        self.name(name)
        value(claim)
    }

    package mutating func member(_ name: String, raw json: ByteView) {
        self.name(name)
        raw(json)
    }

    // MARK: Implementation

    private mutating func separate() {
        if needsComma { output.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    private mutating func bracket(
        _ opening: Unicode.Scalar,
        _ closing: Unicode.Scalar,
        body: (inout JSONWriter) -> Void
    ) {
        separate()
        output.append(UInt8(ascii: opening))
        needsComma = false
        body(&self)
        output.append(UInt8(ascii: closing))
        needsComma = true
    }

    private func appendQuoted(_ text: String) {
        text.withView { appendQuoted($0) }
    }

    private func appendQuoted(_ utf8: ByteView) {
        output.append(UInt8(ascii: "\""))
        appendEscaped(utf8)
        output.append(UInt8(ascii: "\""))
    }

    /// Copies runs of plain bytes, and escapes the bytes that JSON does not allow unescaped.
    private func appendEscaped(_ utf8: ByteView) {
        var plain = 0
        for offset in 0..<utf8.count {
            let byte = utf8[offset]
            guard JSONEscapes.needsEscape(byte) else { continue }
            output.append(utf8.slice(plain, offset - plain))
            plain = offset + 1
            JSONEscapes.appendEscape(of: byte, to: output)
        }
        output.append(utf8.dropFirst(plain))
    }
}
