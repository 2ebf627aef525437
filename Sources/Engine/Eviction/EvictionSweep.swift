/// Decides whose values leave memory: those used least, as many as the low watermark asks for.
///
/// A sample of the bucket gives the bytes held at each frequency of use; the threshold is the
/// lowest frequency at which enough would be free. Then a sweep ejects what is at or below it and
/// halves the counters of what it leaves, so that yesterday's favourites cool down.
package struct EvictionSweep: Sendable {
    /// Sampled bytes that could go, by frequency.
    private var bytes = [UInt64](repeating: 0, count: 256)
    /// Sampled documents, and how many the bucket has.
    private var sampled: UInt64 = 0

    package init() {}

    /// Documents that were looked at.
    package var count: UInt64 { sampled }

    /// Nothing that was looked at can be ejected.
    package var isFruitless: Bool { bytes.allSatisfy { $0 == 0 } }

    mutating func note(frequency: UInt8, bytes count: Int) {
        bytes[Int(frequency)] += UInt64(count)
    }

    mutating func noteLookedAt() { sampled += 1 }

    /// The highest frequency to eject so that `wanted` bytes come free.
    ///
    /// - Parameters:
    ///   - wanted: Bytes.
    ///   - total: Documents of the bucket, of which the sample is a part.
    /// - Returns: 255 where even that is not enough.
    package func threshold(freeing wanted: UInt64, of total: UInt64) -> UInt8 {
        guard sampled > 0 else { return .max }
        let scale = scale(total)
        var sum = 0.0
        for frequency in 0..<256 {
            sum += Double(bytes[frequency]) * scale
            // A little more than wanted: a sample is a sample, and the next wake is not free.
            if sum >= Double(wanted) * 1.1 { return UInt8(frequency) }
        }
        return .max
    }

    /// The bytes that could go from a bucket of `total` documents, as far as the sample tells.
    package func estimate(of total: UInt64) -> UInt64 {
        let found = bytes.reduce(0, +)
        return sampled > 0 ? UInt64(Double(found) * scale(total)) : 0
    }

    private func scale(_ total: UInt64) -> Double { max(1, Double(total) / Double(sampled)) }
}
