internal import Bytes
internal import Foundation

/// Draws key numbers with the distribution of the workload.
///
/// Zipfian draws follow Gray et al., "Quickly generating billion-record synthetic databases"
/// (1994); the ranks are then scattered over the keys, so that hot keys are not neighbours.
struct KeyChooser {
    private struct Zipfian {
        let skew: Double
        let zeta: Double
        let alpha: Double
        let eta: Double
    }

    private let count: Int
    private let zipfian: Zipfian?
    private var random: SeededRandom

    init(_ workload: Workload, seed: UInt64) {
        count = workload.keys
        random = SeededRandom(seed: seed)
        guard case .zipfian(let skew) = workload.distribution, count > 1 else {
            zipfian = nil
            return
        }
        let zeta = (1...count).reduce(0.0) { $0 + pow(Double($1), -skew) }
        let two = 1 + pow(0.5, skew)
        let eta = (1 - pow(2 / Double(count), 1 - skew)) / (1 - two / zeta)
        zipfian = Zipfian(skew: skew, zeta: zeta, alpha: 1 / (1 - skew), eta: eta)
    }

    mutating func next() -> Int {
        guard let zipfian else { return Int.random(in: 0..<count, using: &random) }
        let draw = Double.random(in: 0..<1, using: &random)
        let scaled = draw * zipfian.zeta
        let rank: Int
        if scaled < 1 {
            rank = 0
        } else if scaled < 1 + pow(0.5, zipfian.skew) {
            rank = 1
        } else {
            let place = pow(zipfian.eta * draw - zipfian.eta + 1, zipfian.alpha)
            rank = min(count - 1, Int(Double(count) * place))
        }
        return Int((UInt64(rank) &* 0x9e37_79b9_7f4a_7c15 ^ 0x5bd1_e995) % UInt64(count))
    }

    /// Whether the next request is a write, with a probability of `percent`.
    mutating func writes(percent: Double) -> Bool {
        Double.random(in: 0..<100, using: &random) < percent
    }

    /// The index of the value for the next write.
    mutating func value() -> Int { Int.random(in: 0..<(1 << 30), using: &random) }
}
