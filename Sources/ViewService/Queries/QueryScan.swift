internal import Bytes
internal import Indexing
internal import JSON
internal import Vocabulary

/// Reads the rows or groups of a query in turns, so that many queries share a lane.
///
/// Each kind of scan is a subclass, which has `step`.
class QueryScan {
    let input: ScanInput
    /// The ranges to read, the next one last.
    var ranges: [(keyNumber: Int, range: KeyRange)]
    /// Rows, or groups, that may follow.
    var left: Int

    init(_ input: ScanInput) {
        self.input = input
        ranges = input.ranges.reversed()
        left = input.plan.rowsMax ?? .max
    }

    /// Continues until the batch is full or enough is read for one turn.
    ///
    /// - Throws: `IndexError` if the index cannot be read; the scan must not be continued then.
    func step(_ batch: inout RowBatchWriter) throws(IndexError) -> ScanStep {
        preconditionFailure("each kind of scan has its steps")
    }

    /// Continues with the results of the calls of the last step, in their order.
    func supply(_ results: [[UInt8]]) { preconditionFailure("this scan makes no calls") }

    /// Results to store that were computed since the last call.
    func removeComputed() -> [ComputedPartial] { [] }
}

/// Why a scan returns.
enum ScanStep {
    /// The batch is full, or it is the turn of other queries.
    case paused
    /// Calls of the reduce function to compute; `supply` must be called with their results.
    case calls([ReduceCall])
    /// There are no more rows.
    case done
}

/// The common input of all kinds of scans: plan, source, tree and mask.
struct ScanInput {
    let plan: ScanPlan
    let source: SnapshotSource
    /// The rows of the snapshot.
    let tree: Tree
    /// Nil if all rows of the tree belong to the query.
    let mask: VBucketMask?

    /// Rows that one turn reads at most: some milliseconds.
    static let turnRowsMax = 8_192
    /// Rows that the first turn reads on a thread that serves clients: less than a change of the thread
    /// costs, or not much more.
    static let firstTurnRowsMax = 64

    /// The ranges that may have rows, with their key numbers.
    var ranges: [(keyNumber: Int, range: KeyRange)] {
        guard plan.rowsMax != 0, tree.root.id != .none else { return [] }
        return plan.ranges.enumerated().compactMap { number, range in
            if range.isEmpty { return nil }
            return (plan.hasKeys ? number : 0, KeyRange(start: range.lower, end: range.upper))
        }
    }

    /// Settings of a walk over groups; nil if the plan has one group of all rows.
    var groups: GroupWalk.Settings? {
        guard case .groups(let level) = plan.reduction else { return nil }
        var settings = GroupWalk.Settings { key, level in
            let length =
                level > 0
                ? RowKey.groupPrefix(of: key, level: level)?.length : RowKey.sortKeyLength(key)
            return length ?? key.count
        }
        settings.isDescending = plan.isDescending
        settings.mask = mask
        settings.level = level ?? 0
        return settings
    }

    /// Appends the sort key of a group's key: the prefix, and the end of an array that it leaves open.
    ///
    /// - Throws: `IndexError.unreadable` if no group has this prefix.
    func appendKey(ofGroup prefix: [UInt8], to output: ByteWriter) throws(IndexError) {
        guard case .groups(let level) = plan.reduction else { return }
        let isAppended = prefix.withUnsafeBytes { bytes in
            let prefix = ByteView(bytes)
            guard let level else {
                output.append(prefix)
                return true
            }
            guard let group = RowKey.groupPrefix(of: prefix, level: level) else { return false }
            RowKey.appendSortKey(of: group, in: prefix, to: output)
            return true
        }
        guard isAppended else { throw .unreadable("the key of a row is malformed") }
    }

    /// Appends a group to a batch; it has rows of many vBuckets, so its vBucket is 0.
    func append(
        _ keyNumber: Int,
        _ key: ByteView,
        value: ByteView,
        to batch: inout RowBatchWriter
    ) {
        batch.append(keyNumber: keyNumber, vBucket: VBucketID(0), key: key, value: value)
    }
}
