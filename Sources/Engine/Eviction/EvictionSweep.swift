/// Decides which values are ejected: the least used, until memory use is at the low watermark.
///
/// A sample of the bucket counts the bytes at each frequency of use; the threshold is the lowest
/// frequency at which enough bytes would be freed. Then a sweep ejects documents at or below the
/// threshold and halves the counters of the others, so that documents that were in use long ago
/// become cold.
package struct EvictionSweep: Sendable {
    /// Sampled ejectable bytes, by frequency.
    private var bytes = [UInt64](repeating: 0, count: 256)
    /// Sampled documents, and how many the bucket has.
    private var sampled: UInt64 = 0

    package init() {}

    /// The number of sampled documents.
    package var count: UInt64 { sampled }

    mutating func note(frequency: UInt8, bytes count: Int) {
        bytes[Int(frequency)] += UInt64(count)
    }

    mutating func noteLookedAt() { sampled += 1 }

    /// The highest frequency to eject so that `wanted` bytes are freed.
    ///
    /// - Parameters:
    ///   - wanted: The bytes to free.
    ///   - total: The number of documents of the bucket.
    /// - Returns: The frequency; 255 if ejecting all documents is not enough.
    package func threshold(freeing wanted: UInt64, of total: UInt64) -> UInt8 {
        guard sampled > 0 else { return .max }
        let scale = scale(total)
        var sum = 0.0
        for frequency in 0..<256 {
            sum += Double(bytes[frequency]) * scale
            // A tenth more than wanted: a sample is inexact, and another sweep costs time.
            if sum >= Double(wanted) * 1.1 { return UInt8(frequency) }
        }
        return .max
    }

    /// An estimate of the ejectable bytes of a bucket of `total` documents.
    package func estimate(of total: UInt64) -> UInt64 {
        let found = bytes.reduce(0, +)
        return sampled > 0 ? UInt64(Double(found) * scale(total)) : 0
    }

    private func scale(_ total: UInt64) -> Double { max(1, Double(total) / Double(sampled)) }
}
