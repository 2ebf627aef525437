internal import Indexing

/// Reads the rows of a query's ranges, one range after the other.
final class IndexScan: QueryScan {
    private var current: (keyNumber: Int, walk: RangeWalk)?

    override func step(_ batch: inout RowBatchWriter) throws(IndexError) -> ScanStep {
        // The walk has no mask, so that rows that do not count are counted as read.
        for _ in 0..<input.source.turnRowsMax {
            guard !batch.isFull else { return .paused }
            guard left > 0, let (keyNumber, walk) = current ?? begin() else { return .done }
            guard let entry = try walk.next() else {
                current = nil
                continue
            }
            guard input.mask?.contains(entry.vBucket) ?? true else { continue }
            try input.source.withValue(of: entry) { value in
                batch.append(
                    keyNumber: keyNumber,
                    vBucket: entry.vBucket,
                    key: entry.key,
                    value: value
                )
            }
            left -= 1
        }
        return .paused
    }

    /// Begins the next range; nil after the last.
    private func begin() -> (keyNumber: Int, walk: RangeWalk)? {
        guard let (keyNumber, range) = ranges.popLast() else { return nil }
        let walk = RangeWalk(input.tree, range, descending: input.plan.isDescending)
        current = (keyNumber, walk)
        return current
    }
}
