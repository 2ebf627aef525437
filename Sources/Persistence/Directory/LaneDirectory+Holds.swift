/// The seqnos of a vBucket that a scan has not read yet; compaction keeps their versions.
///
/// A version with a persisted successor is dead for all readers except a scan whose end lies
/// between the two.
struct ScanHold {
    let vBucket: UInt16
    /// The scan has read all seqnos up to this one.
    var place: UInt64
    /// The scan's last seqno: the committed seqno when the scan began.
    let end: UInt64
    /// Identifies the copy being read: a new copy of the vBucket has another value.
    let bornBlock: UInt64
    /// Whether none of the tombstones in the scan's range was purged.
    let isComplete: Bool
}

extension LaneDirectory {
    /// Starts a hold on the seqnos after `seqno`, up to the committed one.
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

    /// Whether the copy that a scan reads is still the current one.
    func isCurrent(_ hold: ScanHold) -> Bool {
        let entry = entries[slot(hold.vBucket)]
        return entry.bornBlock == hold.bornBlock && entry.high >= hold.end
    }

    /// Whether a scan has not yet read the version of `vBucket` at `seqno`.
    func isHeld(_ seqno: UInt64, in vBucket: UInt16) -> Bool {
        holds.values.contains {
            $0.vBucket == vBucket && $0.place < seqno && seqno <= $0.end
        }
    }

    /// The ordinals of the blocks that scans have not read yet.
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
