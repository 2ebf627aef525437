package import Bytes

/// The built-in reductions.
package enum BuiltinReduction: String, Sendable, CaseIterable {
    case count = "_count"
    case sum = "_sum"
    case stats = "_stats"

    /// Why a range has no result: a row's value is not what the reduction needs.
    package var valueError: String {
        "Builtin \(rawValue) function requires map values to be numbers"
    }
}

/// The partial result of some rows for `_count`, `_sum` and `_stats`, which share a slot.
///
/// - Merging is associative but for the last bits of the sums.
/// - A value that is no number only counts, and is remembered: the ranges that contain it have an
///   error, and the others do not.
package struct NumericPartial: Equatable, Sendable {
    package private(set) var count: UInt64 = 0
    /// Values that are arrays of numbers: `_sum` adds them element by element, as CouchDB does.
    package private(set) var arrays: UInt64 = 0
    package private(set) var min = Double.infinity
    package private(set) var max = -Double.infinity
    package private(set) var sum = DoubleDouble()
    package private(set) var squares = DoubleDouble()
    package private(set) var isAllInteger = true
    /// The sums of the arrays' elements.
    package private(set) var elements: [DoubleDouble] = []
    /// The beginning of the first value, in the order of keys, that is neither.
    package private(set) var firstNonNumber: [UInt8]?

    /// Elements of an array: a reduction is at most 64 KiB.
    private static let elementsMax = 3_900
    private static let excerptBytesMax = 60

    package init() {}

    /// Of that many rows whose values are not read: enough for `_count`.
    package init(count: UInt64) {
        self.count = count
    }

    /// Adds the value of the next row.
    package mutating func add(_ value: ByteView) {
        count += 1
        if let number = NumberText.parse(value) {
            add(number)
        } else if let numbers = NumericPartial.numbers(in: value) {
            arrays += 1
            addElements(numbers)
        } else if firstNonNumber == nil {
            firstNonNumber = value.slice(0, Swift.min(value.count, Self.excerptBytesMax)).bytes
        }
    }

    @inline(__always)
    private mutating func add(_ number: Double) {
        if number < min { min = number }
        if number > max { max = number }
        sum += number
        squares.addSquare(of: number)
        if isAllInteger, number.rounded(.towardZero) != number { isAllInteger = false }
    }

    private mutating func addElements(_ numbers: [DoubleDouble]) {
        while elements.count < numbers.count { elements.append(DoubleDouble()) }
        for (index, number) in numbers.enumerated() { elements[index] += number }
    }

    /// Appends the rows of `next`, which follow.
    package mutating func merge(_ next: NumericPartial) {
        count += next.count
        arrays += next.arrays
        if next.min < min { min = next.min }
        if next.max > max { max = next.max }
        sum += next.sum
        squares += next.squares
        isAllInteger = isAllInteger && next.isAllInteger
        if !next.elements.isEmpty { addElements(next.elements) }
        if firstNonNumber == nil { firstNonNumber = next.firstNonNumber }
    }

    /// The elements of a JSON array of numbers; nil if the text is another value.
    private static func numbers(in text: ByteView) -> [DoubleDouble]? {
        guard text.count >= 2, text[0] == UInt8(ascii: "["),
            text[text.count - 1] == UInt8(ascii: "]")
        else { return nil }
        let inside = text.slice(1, text.count - 2)
        var numbers: [DoubleDouble] = []
        var start = 0
        if inside.isEmpty { return numbers }
        for offset in 0...inside.count
        where offset == inside.count || inside[offset] == UInt8(ascii: ",") {
            guard numbers.count < elementsMax,
                let number = NumberText.parse(inside.slice(start, offset - start))
            else { return nil }
            numbers.append(DoubleDouble(number))
            start = offset + 1
        }
        return numbers
    }

    // MARK: Results

    /// Appends the result as JSON; returns false, and appends nothing, if a value is no number.
    package func appendResult(of reduction: BuiltinReduction, to output: ByteWriter) -> Bool {
        switch reduction {
        case .count:
            output.append(text: String(count))
        case .sum:
            guard firstNonNumber == nil else { return false }
            arrays > 0 ? appendArray(to: output) : append(sum, to: output)
        case .stats:
            guard firstNonNumber == nil, arrays == 0, count > 0 else { return false }
            output.append("{\"sum\":")
            append(sum, to: output)
            output.append(text: ",\"count\":\(count),\"min\":")
            NumberText.append(min, to: output)
            output.append(",\"max\":")
            NumberText.append(max, to: output)
            output.append(",\"sumsqr\":")
            append(squares, to: output)
            output.append("}")
        }
        return true
    }

    /// Among arrays, a number counts as an array of one.
    private func appendArray(to output: ByteWriter) {
        var total = elements
        if total.isEmpty { total = [DoubleDouble()] }
        total[0] += sum
        output.append("[")
        for (index, element) in total.enumerated() {
            if index > 0 { output.append(",") }
            NumberText.append(element.value, to: output)
        }
        output.append("]")
    }

    /// Sums of integers are exact up to 63 bits, beyond what a double holds.
    private func append(_ sum: DoubleDouble, to output: ByteWriter) {
        if isAllInteger, let integer = sum.integer {
            output.append(text: String(integer))
        } else {
            NumberText.append(sum.value, to: output)
        }
    }
}

extension NumericPartial {
    private enum Flag {
        static let allInteger: UInt8 = 1
        static let sumHasLow: UInt8 = 2
        static let squaresHaveLow: UInt8 = 4
        static let arrays: UInt8 = 8
        static let nonNumber: UInt8 = 16
    }

    /// Appends the bytes that `init(encoded:)` reads.
    package func encode(to output: ByteWriter) {
        var flags: UInt8 = isAllInteger ? Flag.allInteger : 0
        if sum.low != 0 { flags |= Flag.sumHasLow }
        if squares.low != 0 { flags |= Flag.squaresHaveLow }
        if arrays > 0 { flags |= Flag.arrays }
        if firstNonNumber != nil { flags |= Flag.nonNumber }
        output.append(flags)
        LEB128.append(count, to: output)
        for number in [min, max, sum.high, squares.high] { NumericPartial.put(number, output) }
        if sum.low != 0 { NumericPartial.put(sum.low, output) }
        if squares.low != 0 { NumericPartial.put(squares.low, output) }
        if arrays > 0 {
            LEB128.append(arrays, to: output)
            LEB128.append(UInt64(elements.count), to: output)
            for element in elements {
                NumericPartial.put(element.high, output)
                NumericPartial.put(element.low, output)
            }
        }
        if let firstNonNumber { output.append(firstNonNumber) }
    }

    private static func put(_ number: Double, _ output: ByteWriter) {
        output.append(littleEndian: number.bitPattern)
    }

    /// Nil for bytes that `encode` did not write.
    package init?(encoded: ByteView) {
        var reader = ByteReader(encoded)
        func number() -> Double? { reader.littleEndian(UInt64.self).map(Double.init(bitPattern:)) }
        guard let flags = reader.littleEndian(UInt8.self), flags < 32,
            let count = reader.leb128(), count <= UInt64(Int64.max),
            let min = number(), let max = number(), let high = number(), let squares = number()
        else { return nil }
        self.count = count
        self.min = min
        self.max = max
        isAllInteger = flags & Flag.allInteger != 0
        var lows = (0.0, 0.0)
        if flags & Flag.sumHasLow != 0 {
            guard let low = number() else { return nil }
            lows.0 = low
        }
        if flags & Flag.squaresHaveLow != 0 {
            guard let low = number() else { return nil }
            lows.1 = low
        }
        sum = DoubleDouble(high, lows.0)
        self.squares = DoubleDouble(squares, lows.1)
        if flags & Flag.arrays != 0 {
            guard let arrays = reader.leb128(), arrays <= count, let length = reader.leb128(),
                length <= UInt64(Self.elementsMax)
            else { return nil }
            self.arrays = arrays
            for _ in 0..<length {
                guard let high = number(), let low = number() else { return nil }
                elements.append(DoubleDouble(high, low))
            }
        }
        if flags & Flag.nonNumber != 0 {
            guard reader.rest.count <= Self.excerptBytesMax else { return nil }
            firstNonNumber = reader.rest.bytes
        } else if !reader.isAtEnd {
            return nil
        }
    }
}

/// A sum of doubles with about 106 bits, as the unevaluated sum of two (Dekker 1971, Knuth).
///
/// With it, the printed sum of a range depends neither on the shape of the tree nor on the number of
/// nodes, in practice: partial sums are added in different orders, and plain doubles would show it.
package struct DoubleDouble: Equatable, Sendable {
    package private(set) var high: Double
    package private(set) var low: Double

    package init(_ high: Double = 0, _ low: Double = 0) {
        self.high = high
        self.low = low
    }

    /// The nearest double.
    package var value: Double { high + low }

    @inline(__always)
    package static func += (sum: inout DoubleDouble, other: DoubleDouble) {
        let high = sum.high + other.high
        let part = high - sum.high
        let error = (sum.high - (high - part)) + (other.high - part)
        sum.renormalize(high, error + (sum.low + other.low))
    }

    @inline(__always)
    package static func += (sum: inout DoubleDouble, number: Double) {
        let high = sum.high + number
        let part = high - sum.high
        let error = (sum.high - (high - part)) + (number - part)
        sum.renormalize(high, error + sum.low)
    }

    /// Adds the exact square of a number.
    @inline(__always)
    package mutating func addSquare(of number: Double) {
        let square = number * number
        self += DoubleDouble(square, (-square).addingProduct(number, number))
    }

    @inline(__always)
    private mutating func renormalize(_ newHigh: Double, _ newLow: Double) {
        high = newHigh + newLow
        // Beyond the largest double there is no remainder, only NaN.
        low = high.isFinite ? newLow - (high - newHigh) : 0
    }

    /// The sum as an integer, if it is one and has at most 63 bits.
    package var integer: Int64? {
        guard let one = Int64(exactly: high), let two = Int64(exactly: low) else { return nil }
        let (sum, isOver) = one.addingReportingOverflow(two)
        return isOver ? nil : sum
    }
}
