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
