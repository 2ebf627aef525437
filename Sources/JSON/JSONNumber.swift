package import Bytes

/// Numbers as JavaScript reads and prints them: as doubles, in the shortest text that reads back.
package enum JSONNumber {
    /// The double nearest to a number that `JSONScanner` has accepted; infinite if it is too large.
    package static func value(of text: ByteView) -> Double {
        exactValue(of: text) ?? roundedValue(of: text)
    }

    /// Appends `number` as JavaScript prints it: 100, 1e+21, 1e-7, and 0 for minus zero.
    ///
    /// JSON has no infinity: it is written as 1e400, which reads back as infinity.
    ///
    /// - Precondition: `number` is not NaN.
    package static func append(_ number: Double, to output: ByteWriter) {
        precondition(!number.isNaN, "JSON has no NaN")
        if let integer = Int(exactly: number), integer.magnitude < integersMax {
            output.append(text: String(integer))
            return
        }
        if number < 0 { output.append(UInt8(ascii: "-")) }
        if number.isInfinite {
            output.append("1e400")
        } else {
            Decimal(number.magnitude).append(to: output)
        }
    }

    /// Up to here doubles represent every integer, so its own digits are the shortest text.
    private static let integersMax: UInt = 1 << 53

    // MARK: Reading

    /// The value, if a double represents digits and power of ten exactly, so that one operation
    /// rounds correctly (Clinger 1990); nil otherwise.
    private static func exactValue(of text: ByteView) -> Double? {
        var (mantissa, exponent) = (0, 0)
        let isNegative = text[0] == UInt8(ascii: "-")
        var offset = isNegative ? 1 : 0
        var isFraction = false
        scan: while offset < text.count {
            switch text[offset] {
            case UInt8(ascii: "."): isFraction = true
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                mantissa = mantissa * 10 + Int(text[offset] - UInt8(ascii: "0"))
                guard mantissa < integersMax else { return nil }
                if isFraction { exponent -= 1 }
            default: break scan
            }
            offset += 1
        }
        if offset < text.count {
            guard let written = smallExponent(of: text.dropFirst(offset + 1)) else { return nil }
            exponent += written
        }
        guard let magnitude = scale(Double(mantissa), by: exponent) else { return nil }
        return isNegative ? -magnitude : magnitude
    }

    /// The exponent that `digits` write, with its sign; nil if it has more than two digits.
    private static func smallExponent(of digits: ByteView) -> Int? {
        let hasSign = digits[0] == UInt8(ascii: "-") || digits[0] == UInt8(ascii: "+")
        guard digits.count - (hasSign ? 1 : 0) <= 2 else { return nil }
        var exponent = 0
        for offset in (hasSign ? 1 : 0)..<digits.count {
            exponent = exponent * 10 + Int(digits[offset] - UInt8(ascii: "0"))
        }
        return digits[0] == UInt8(ascii: "-") ? -exponent : exponent
    }

    private static func scale(_ mantissa: Double, by exponent: Int) -> Double? {
        switch exponent {
        case 0: mantissa
        case 1...22: mantissa * powers[exponent]
        case -22 ... -1: mantissa / powers[-exponent]
        default: mantissa == 0 ? 0 : nil
        }
    }

    /// The powers of ten that a double represents exactly.
    private static let powers: [Double] = (0...22).map { exponent in
        (0..<exponent).reduce(1.0) { power, _ in power * 10 }
    }

    private static func roundedValue(of text: ByteView) -> Double {
        guard let number = Double(text.text) else {
            preconditionFailure("the grammar's numbers are numbers to the standard library")
        }
        return number
    }
}

/// A positive finite double as the fewest decimal digits that identify it.
private struct Decimal {
    /// Up to 17 digits, without zeros at either end.
    private var digits = SIMD32<UInt8>(repeating: 0)
    private var count = 0
    /// The value is this power of ten times the fraction that has the digits behind its point.
    private var exponent = 0

    /// Reads the digits from the standard library's text, which has the fewest digits and another
    /// form than JavaScript's.
    init(_ magnitude: Double) {
        var text = magnitude.description
        text.withUTF8 { text in
            let mark = text.firstIndex(of: UInt8(ascii: "e")) ?? text.count
            readDigits(text[..<mark])
            if mark < text.count { exponent += Decimal.integer(text[(mark + 1)...]) }
        }
    }

    /// Reads digits and a point, without an exponent.
    private mutating func readDigits(_ text: Slice<UnsafeBufferPointer<UInt8>>) {
        var isFraction = false
        // Zeros that are digits only if a later digit is none.
        var zeros = 0
        for byte in text {
            switch byte {
            case UInt8(ascii: "."): isFraction = true
            case UInt8(ascii: "0") where count == 0: if isFraction { exponent -= 1 }
            case UInt8(ascii: "0"):
                zeros += 1
                if !isFraction { exponent += 1 }
            default:
                for place in count..<count + zeros { digits[place] = UInt8(ascii: "0") }
                digits[count + zeros] = byte
                count += zeros + 1
                zeros = 0
                if !isFraction { exponent += 1 }
            }
        }
    }

    private static func integer(_ text: Slice<UnsafeBufferPointer<UInt8>>) -> Int {
        let digits = text.drop { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "-") }
        let magnitude = digits.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
        return text.first == UInt8(ascii: "-") ? -magnitude : magnitude
    }

    /// Appends the text that ECMA-262 specifies (Number::toString, radix 10).
    func append(to output: ByteWriter) {
        switch exponent {
        case count...21 where exponent > 0:
            appendDigits(0..<count, to: output)
            appendZeros(exponent - count, to: output)
        case 1...21:
            appendDigits(0..<exponent, to: output)
            output.append(UInt8(ascii: "."))
            appendDigits(exponent..<count, to: output)
        case -5...0:
            output.append("0.")
            appendZeros(-exponent, to: output)
            appendDigits(0..<count, to: output)
        default:
            appendDigits(0..<1, to: output)
            if count > 1 { output.append(UInt8(ascii: ".")) }
            appendDigits(1..<count, to: output)
            output.append(exponent > 0 ? "e+" : "e-")
            output.append(text: String((exponent - 1).magnitude))
        }
    }

    private func appendDigits(_ places: Range<Int>, to output: ByteWriter) {
        for place in places { output.append(digits[place]) }
    }

    private func appendZeros(_ number: Int, to output: ByteWriter) {
        for _ in 0..<number { output.append(UInt8(ascii: "0")) }
    }
}
