/// A run of one vBucket's seqnos within one block, in 24 bytes, and two for each dead document while
/// some of the others live.
///
/// Which documents are dead is known here and nowhere else: the table in memory tells that a key
/// has a newer version, but not whether one between that and ours is on disk already.
struct DirectoryRun {
    private var firstLow: UInt32
    private var firstHigh: UInt16
    /// Documents, dead ones too.
    private(set) var count: UInt16
    /// Which block: an index that is free for use again when the block is gone.
    private(set) var ordinal: UInt32
    /// Documents without a persisted successor.
    private(set) var live: UInt16
    private var span: UInt16
    /// Seqnos of dead documents, counted from `first`; empty where all are alike.
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

    /// Notes a persisted successor; false where that is known already.
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

    /// Takes over what another run of the same documents knows of them.
    mutating func adoptLive(from other: DirectoryRun) {
        live = other.live
        dead = other.dead
    }
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
