/// A run of one vBucket's seqnos within one block, in 16 bytes.
struct DirectoryRun {
    private var firstLow: UInt32
    private var firstHigh: UInt16
    /// Documents, dead ones too.
    private(set) var count: UInt16
    /// Which block: an index that is free for use again when the block is gone.
    private(set) var ordinal: UInt32
    /// Documents without a persisted successor.
    var live: UInt16
    private var span: UInt16

    init(_ run: BlockRun, ordinal: UInt32) {
        firstLow = UInt32(truncatingIfNeeded: run.first)
        firstHigh = UInt16(run.first >> 32)
        count = UInt16(run.count)
        live = count
        span = UInt16(run.span)
        self.ordinal = ordinal
    }

    var first: UInt64 { UInt64(firstHigh) << 32 | UInt64(firstLow) }

    var last: UInt64 { first + UInt64(span) }
}

extension [DirectoryRun] {
    /// The index of the first run that ends at `seqno` or later: `count` where none does.
    func firstIndex(endingAtOrAfter seqno: UInt64) -> Int {
        var low = 0
        var high = count
        while low < high {
            let middle = (low + high) / 2
            if self[middle].last < seqno { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
