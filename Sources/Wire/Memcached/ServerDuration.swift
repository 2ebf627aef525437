/// The server's execution time in 16 bits, as the protocol has it: (2 x microseconds) ^ (1 / 1.74).
///
/// The resolution is fine for microseconds and coarse at the maximum of two minutes. A power costs
/// some 50 ns and is needed once per response, so durations below 4.1 ms are looked up in a table.
/// The least one is 1: clients take 0 for a server that measured nothing.
package struct ServerDuration: Equatable, Sendable {
    package let encoded: UInt16

    package init(microseconds: UInt64) {
        let table = ServerDuration.table
        encoded =
            microseconds < table.count
            ? table[Int(microseconds)] : ServerDuration.encode(microseconds)
    }

    private static let table = (0..<4_096).map { encode(UInt64($0)) }

    /// The time of the largest encoded number; longer times are encoded as this one.
    private static let microsecondsMax: UInt64 = 120_125_042

    private static func encode(_ microseconds: UInt64) -> UInt16 {
        let twice = Double(2 * max(1, min(microseconds, microsecondsMax)))
        let power = exponential(logarithm(twice) / 1.74)
        return UInt16(min(power.rounded(), 65_535))
    }

    /// The natural logarithm: halve down to 1..<2, then 2 artanh((m - 1) / (m + 1)) as a series.
    private static func logarithm(_ value: Double) -> Double {
        let ratio = (value.significand - 1) / (value.significand + 1)
        var power = ratio
        var sum = 0.0
        for term in 0..<16 {
            sum += power / Double(2 * term + 1)
            power *= ratio * ratio
        }
        return 2 * sum + Double(value.exponent) * 0.693_147_180_559_945_3
    }

    /// e to the `value`: a Taylor series for the part below 1, then squared back up.
    private static func exponential(_ value: Double) -> Double {
        var term = 1.0
        var sum = 1.0
        let small = value / 16
        for step in 1..<20 {
            term *= small / Double(step)
            sum += term
        }
        for _ in 0..<4 { sum *= sum }
        return sum
    }
}
