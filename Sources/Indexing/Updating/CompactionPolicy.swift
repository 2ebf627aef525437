/// Which index of a node is compacted next without a request.
///
/// - One at a time: each has commits of its index wait, and copies it at the speed of the disk.
/// - An index that is being built is left alone: the pages that are free now are used by its rows.
package enum CompactionPolicy {
    /// When an index is compacted; nil for a threshold that is not set.
    package struct Threshold: Hashable, Sendable {
        /// The unused percentage of a file.
        package var percent: Int? = 30
        package var bytes: UInt64?

        package init() {}
    }

    /// The sizes and the state of an index.
    package struct Candidate: Hashable, Sendable {
        package var fileBytes: UInt64
        /// Of `fileBytes`, those of pages that are in use.
        package var usedBytes: UInt64
        /// Whether its file is open and it is neither being built nor faulty.
        package var isAtRest: Bool
        package var isCompacting: Bool

        package init(
            fileBytes: UInt64,
            usedBytes: UInt64,
            isAtRest: Bool = true,
            isCompacting: Bool = false
        ) {
            self.fileBytes = fileBytes
            self.usedBytes = usedBytes
            self.isAtRest = isAtRest
            self.isCompacting = isCompacting
        }

        var freeBytes: UInt64 { fileBytes - min(usedBytes, fileBytes) }
    }

    /// Smaller files are not compacted for their percentage: a few pages would be a large part.
    package static let fileBytesMin: UInt64 = 1 << 20

    /// The place of the index that is compacted next: the one with most unused bytes; nil for none.
    package static func next(_ candidates: [Candidate], _ threshold: Threshold) -> Int? {
        guard !candidates.contains(where: \.isCompacting) else { return nil }
        let due = candidates.indices.filter { isDue(candidates[$0], threshold) }
        return due.max { candidates[$0].freeBytes < candidates[$1].freeBytes }
    }

    private static func isDue(_ candidate: Candidate, _ threshold: Threshold) -> Bool {
        guard candidate.isAtRest, candidate.fileBytes >= fileBytesMin else { return false }
        let percent = Double(candidate.freeBytes) * 100 / Double(candidate.fileBytes)
        let passesPercent = threshold.percent.map { percent >= Double($0) } ?? false
        let passesBytes = threshold.bytes.map { candidate.freeBytes >= $0 } ?? false
        return passesPercent || passesBytes
    }
}
