/// The rows of one channel in order of sequence: 12 bytes each.
///
/// A replaced row leaves a hole, because moving the rows behind it would cost as much as the log is long.
/// Holes are removed when they are as many as the rows, so that appending costs a constant on average.
struct RowList: Sendable {
    private static let hole = UInt32.max
    private static let holesMin = 16

    private var sequences: [UInt64] = []
    private var versions: [UInt32] = []
    private var holes = 0

    /// - Precondition: `sequence` is higher than all in the list.
    mutating func append(_ sequence: UInt64, _ version: UInt32) {
        sequences.append(sequence)
        versions.append(version)
    }

    /// The version of a row; nil if there is none with that sequence.
    func version(at sequence: UInt64) -> UInt32? {
        let index = sequences.lowerBound(sequence)
        guard index < sequences.count, sequences[index] == sequence, versions[index] != Self.hole
        else { return nil }
        return versions[index]
    }

    mutating func remove(_ sequence: UInt64) {
        guard version(at: sequence) != nil else { return }
        versions[sequences.lowerBound(sequence)] = Self.hole
        holes += 1
        if holes >= Self.holesMin, holes * 2 >= sequences.count { removeHoles() }
    }

    /// The versions of the first rows after `sequence`.
    func rows(after sequence: UInt64, atMost count: Int) -> [UInt32] {
        var found: [UInt32] = []
        var index = sequence == .max ? sequences.count : sequences.lowerBound(sequence + 1)
        while index < sequences.count, found.count < count {
            if versions[index] != Self.hole { found.append(versions[index]) }
            index += 1
        }
        return found
    }

    private mutating func removeHoles() {
        let kept = versions.indices.filter { versions[$0] != Self.hole }
        sequences = kept.map { sequences[$0] }
        versions = kept.map { versions[$0] }
        holes = 0
    }
}
