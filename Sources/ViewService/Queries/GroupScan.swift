internal import Bytes
internal import Indexing

/// Reduces ranges, or their groups, by a built-in reduction.
///
/// A range without stored results, or with a mask, is read row by row in several turns.
final class GroupScan: QueryScan {
    /// A group or a range of which some rows are reduced.
    private struct Fold {
        let prefix: [UInt8]
        let walk: RangeWalk
        var total = NumericPartial()
    }

    /// Whether values are not read.
    private let countsOnly: Bool
    private let settings: GroupWalk.Settings?
    private var keyNumber = 0
    private var groups: GroupWalk?
    private var fold: Fold?
    /// Rows that this turn may still read.
    private var turnRows = 0
    private let key = ByteWriter()
    private let value = ByteWriter()

    init(_ input: ScanInput, countsOnly: Bool) {
        self.countsOnly = countsOnly
        settings = input.groups
        super.init(input)
    }

    override func step(_ batch: inout RowBatchWriter) throws(IndexError) -> ScanStep {
        turnRows = input.source.turnRowsMax
        while turnRows > 0, !batch.isFull {
            guard left > 0 else { return .done }
            let reduced: (prefix: [UInt8], partial: NumericPartial)?
            if fold != nil {
                reduced = try proceed()
            } else if let groups {
                reduced = try next(groups)
            } else if let next = ranges.popLast() {
                keyNumber = next.keyNumber
                if let settings {
                    groups = GroupWalk(input.tree, next.range, settings: settings)
                    continue
                }
                reduced = try reduce(next.range, prefix: [])
            } else {
                return .done
            }
            guard let reduced, reduced.partial.count > 0 else { continue }
            value.removeAll(keepingAtMost: RowBatch.bytesTarget)
            reduced.partial.encode(to: value)
            key.removeAll()
            try input.appendKey(ofGroup: reduced.prefix, to: key)
            input.append(keyNumber, key.view, value: value.view, to: &batch)
            left -= 1
        }
        return .paused
    }

    /// The next group; nil if it has to be read first, or after the last.
    private func next(
        _ groups: GroupWalk
    ) throws(IndexError) -> (prefix: [UInt8], partial: NumericPartial)? {
        var total = NumericPartial()
        let group = try groups.next { (entry) throws(IndexError) in try add(entry, to: &total) }
        guard let group else {
            self.groups = nil
            // A key without rows costs a walk through the tree too.
            turnRows -= 1
            return nil
        }
        // It has passed that many rows at least.
        turnRows -= total.count == 0 && group.range == nil ? GroupWalk.skippedMax : 1
        guard let range = group.range else { return (group.prefix, total) }
        return try reduce(range, prefix: group.prefix)
    }

    /// Reduces a range at once if that reads a few nodes only; otherwise begins to read its rows.
    private func reduce(
        _ range: KeyRange,
        prefix: [UInt8]
    ) throws(IndexError) -> (prefix: [UInt8], partial: NumericPartial)? {
        if input.mask == nil {
            if countsOnly {
                return (prefix, NumericPartial(count: try input.tree.count(range)))
            }
            if input.source.hasPartials {
                return (prefix, try input.tree.reduceNumbers(range, partials: input.source))
            }
        }
        fold = Fold(prefix: prefix, walk: RangeWalk(input.tree, range))
        return nil
    }

    /// Reads more rows of the fold; its result after the last.
    private func proceed() throws(IndexError) -> (prefix: [UInt8], partial: NumericPartial)? {
        guard var fold else { return nil }
        while turnRows > 0 {
            turnRows -= 1
            guard let entry = try fold.walk.next() else {
                self.fold = nil
                return (fold.prefix, fold.total)
            }
            guard input.mask?.contains(entry.vBucket) ?? true else { continue }
            try add(entry, to: &fold.total)
        }
        self.fold = fold
        return nil
    }

    private func add(
        _ entry: IndexEntry,
        to total: inout NumericPartial
    ) throws(IndexError) {
        turnRows -= 1
        guard !countsOnly else { return total.merge(NumericPartial(count: 1)) }
        try input.source.withValue(of: entry) { total.add($0) }
    }
}
