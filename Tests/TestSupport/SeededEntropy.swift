package import Bytes
internal import Seams

/// Bits that a seed determines.
package final class SeededEntropy: Entropy {
    private let random: Guarded<SeededRandom>

    package init(seed: UInt64 = 7) { random = Guarded(SeededRandom(seed: seed)) }

    package func next() -> UInt64 { random.withLock { $0.next() } }
}

extension SeededRandom {
    /// A number of `0..<bound`.
    package mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }
}
