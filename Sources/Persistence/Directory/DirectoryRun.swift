/// A run of one vBucket's seqnos within one block.
///
/// A run takes 24 bytes, and two per dead document while other documents of the run live. Only this
/// type knows which documents are dead: the hash table knows that a key has a newer version, but
/// not whether a newer version is already on disk.
struct DirectoryRun {
    private var firstLow: UInt32
    private var firstHigh: UInt16
    /// Documents, dead ones included.
    private(set) var count: UInt16
    /// The block's index in `LaneDirectory.blocks`; reused after the block is removed.
    private(set) var ordinal: UInt32
    /// Documents without a persisted successor.
    private(set) var live: UInt16
    private var span: UInt16
    /// Seqnos of dead documents as offsets from `first`; empty if all or none are dead.
    private var dead: [UInt16] = []

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

    /// Whether the document at `seqno`, which must be one of the run's, has a persisted successor.
    func isDead(_ seqno: UInt64) -> Bool {
        guard !dead.isEmpty else { return live == 0 }
        return dead.contains(UInt16(truncatingIfNeeded: seqno - first))
    }

    /// Marks the document at `seqno` dead; false if it was already.
    mutating func markDead(_ seqno: UInt64) -> Bool {
        guard !isDead(seqno) else { return false }
        live -= 1
        if live == 0 {
            dead = []
        } else {
            dead.append(UInt16(truncatingIfNeeded: seqno - first))
        }
        return true
    }

    mutating func resetLive() {
        live = count
        dead = []
    }

    /// Copies the live and dead marks of another run over the same documents.
    mutating func adoptLive(from other: DirectoryRun) {
        live = other.live
        dead = other.dead
    }
}

extension [DirectoryRun] {
    /// The index of the first run that ends at `seqno` or later; `count` if there is none.
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
