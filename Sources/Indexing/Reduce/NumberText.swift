package import Bytes

/// Numbers as JSON text.
package enum NumberText {
    /// The number that a JSON text is; nil if it is none.
    package static func parse(_ text: ByteView) -> Double? {
        var offset = 0
        let isNegative = text.count > 0 && text[0] == UInt8(ascii: "-")
        if isNegative { offset = 1 }
        let first = offset
        var digits: Int64 = 0
        let end = text.count
        while offset < end {
            let digit = text[offset] &- UInt8(ascii: "0")
            guard digit < 10 else { break }
            // Up to 15 digits every integer is a double.
            guard offset - first < 15 else { return parseSlowly(text) }
            digits = digits * 10 + Int64(digit)
            offset += 1
        }
        guard offset == end else { return parseSlowly(text) }
        let hasLeadingZero = offset - first > 1 && text[first] == UInt8(ascii: "0")
        guard offset > first, !hasLeadingZero else { return nil }
        // Minus zero is a number of its own.
        return isNegative ? -Double(digits) : Double(digits)
    }

    /// By the grammar of JSON, which is narrower than Swift's.
    private static func parseSlowly(_ text: ByteView) -> Double? {
        var offset = 0
        func skipDigits() -> Int {
            let start = offset
            while offset < text.count, text[offset] &- UInt8(ascii: "0") < 10 { offset += 1 }
            return offset - start
        }
        func skip(_ characters: StaticString) -> Bool {
            guard offset < text.count else { return false }
            let isFound = characters.withUTF8Buffer { $0.contains(text[offset]) }
            if isFound { offset += 1 }
            return isFound
        }
        _ = skip("-")
        let start = offset
        let whole = skipDigits()
        guard whole > 0, whole == 1 || text[start] != UInt8(ascii: "0") else { return nil }
        if skip("."), skipDigits() == 0 { return nil }
        if skip("eE") {
            _ = skip("+-")
            if skipDigits() == 0 { return nil }
        }
        guard offset == text.count else { return nil }
        // Swift's parser answers nil for no number that JSON allows; out of range is infinity.
        return Double(text.text)
    }

    /// Appends a number as JavaScript prints it: the shortest text that is read back as the same
    /// double; `null` for infinity and NaN, which JSON does not have.
    package static func append(_ number: Double, to output: ByteWriter) {
        guard number.isFinite else { return output.append("null") }
        if number == 0 { return output.append("0") }
        if let integer = Int64(exactly: number), abs(number) < 1e15 {
            return output.append(text: String(integer))
        }
        if number < 0 { output.append(UInt8(ascii: "-")) }
        // Swift has the same digits, and puts point and exponent elsewhere.
        var digits: [UInt8] = []
        var exponent = 0
        var isAfterPoint = false
        var scale = 0
        let text = Array(number.magnitude.description.utf8)
        for (index, byte) in text.enumerated() {
            if byte == UInt8(ascii: "e") {
                exponent = Int(String(decoding: text[(index + 1)...], as: UTF8.self)) ?? 0
                break
            }
            if byte == UInt8(ascii: ".") {
                isAfterPoint = true
            } else {
                digits.append(byte)
                if isAfterPoint { scale += 1 }
            }
        }
        while digits.count > 1, digits.last == UInt8(ascii: "0") {
            digits.removeLast()
            scale -= 1
        }
        let leading = digits.prefix { $0 == UInt8(ascii: "0") }.count
        digits.removeFirst(min(leading, digits.count - 1))
        // The number is 0.digits · 10^point.
        append(digits, point: digits.count - scale + exponent, to: output)
    }

    /// ECMAScript, Number::toString.
    private static func append(_ digits: [UInt8], point: Int, to output: ByteWriter) {
        let zero: [UInt8] = [UInt8(ascii: "0")]
        switch point {
        case digits.count...21:
            output.append(digits)
            for _ in digits.count..<point { output.append(zero) }
        case 1...21:
            output.append(Array(digits[..<point]))
            output.append(UInt8(ascii: "."))
            output.append(Array(digits[point...]))
        case -5...0:
            output.append("0.")
            for _ in 0..<(-point) { output.append(zero) }
            output.append(digits)
        default:
            output.append(digits[0])
            if digits.count > 1 {
                output.append(UInt8(ascii: "."))
                output.append(Array(digits[1...]))
            }
            output.append(point > 0 ? "e+" : "e-")
            output.append(text: String(abs(point - 1)))
        }
    }
}
