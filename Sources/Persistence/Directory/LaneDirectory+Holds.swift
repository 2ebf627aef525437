/// What scans by seqno still have to read of a vBucket: compaction leaves it where it is.
///
/// A version with a newer one of its key is dead for everybody but a scan whose end lies between
/// the two.
struct ScanHold {
    let vBucket: UInt16
    /// Everything up to here was read.
    var place: UInt64
    /// The scan ends here: what was committed when it began.
    let end: UInt64
    /// Of the copy that is read; another copy has another one.
    let bornBlock: UInt64
    /// Nothing was purged of what the scan is to read.
    let isComplete: Bool
}

extension LaneDirectory {
    /// Starts to hold what lies behind `seqno`; the end is what is committed at this moment.
    mutating func hold(_ vBucket: UInt16, after seqno: UInt64) -> (number: UInt64, hold: ScanHold) {
        let entry = entries[slot(vBucket)]
        let hold = ScanHold(
            vBucket: vBucket,
            place: seqno,
            end: entry.high,
            bornBlock: entry.bornBlock,
            isComplete: seqno == 0 || seqno >= entry.purged
        )
        nextHold += 1
        holds[nextHold] = hold
        return (nextHold, hold)
    }

    /// Whether the copy that a scan reads is still the one that is here.
    func isCurrent(_ hold: ScanHold) -> Bool {
        let entry = entries[slot(hold.vBucket)]
        return entry.bornBlock == hold.bornBlock && entry.high >= hold.end
    }

    /// Whether some scan has yet to read a version of `vBucket` at `seqno`.
    func isHeld(_ seqno: UInt64, in vBucket: UInt16) -> Bool {
        holds.values.contains {
            $0.vBucket == vBucket && $0.place < seqno && seqno <= $0.end
        }
    }

    /// The blocks that scans have yet to read.
    var heldOrdinals: Set<UInt32> {
        var held: Set<UInt32> = []
        for hold in holds.values {
            let runs = entries[slot(hold.vBucket)].runs
            let first = runs.firstIndex(endingAtOrAfter: hold.place + 1)
            for run in runs[first...] where run.first <= hold.end { held.insert(run.ordinal) }
        }
        return held
    }
}
