package import Bytes
package import Vocabulary

/// How many tombstones of a vBucket have come of age.
package struct TombstoneCensus: Sendable {
    /// Versions of any kind, tombstones included.
    package var documents = 0
    /// Tombstones, and those of them that are in memory whole.
    package var tombstones = 0
    package var resident = 0
    /// Resident ones that may go.
    package var due = 0

    package init() {}

    /// Tombstones whose age only the disk knows.
    package var unknown: Int { max(tombstones - resident, 0) }
}

/// Tombstones are forgotten when they are old, or earlier where memory is short and no disk is there.
extension VBucketCore {
    /// Up to this seqno no flusher or cursor needs a tombstone; only older readers may.
    package var purgeableSeqno: Seqno {
        isPersistent ? min(checkpoint.lowestCursor, persistedSeqno) : checkpoint.lowestCursor
    }

    /// Counts tombstones in some groups; returns where to go on.
    package func count(
        _ census: inout TombstoneCensus,
        from start: UInt64,
        groupsMax: Int,
        deletedBefore: UInt32
    ) -> UInt64? {
        census.documents = liveCount + tombstoneCount
        census.tombstones = tombstoneCount
        guard tombstoneCount > 0 else { return nil }
        let last = purgeableSeqno
        return table.visit(from: start, groupsMax: groupsMax) { item in
            guard item.isDeleted else { return }
            census.resident += 1
            if item.expiry < deletedBefore, item.seqno <= last { census.due += 1 }
        }
    }

    /// Forgets tombstones older than `deletedBefore`, for buckets without a disk.
    ///
    /// A reader of changes from before `purgeSeqno` has to restart from zero: deletions are
    /// missing.
    package mutating func forgetTombstones(
        from start: UInt64,
        groupsMax: Int,
        deletedBefore: UInt32
    ) -> PagerSlice {
        precondition(!isPersistent, "tombstones on disk are purged there first")
        var slice = PagerSlice()
        var victims: [HashTable.Place] = []
        let last = checkpoint.lowestCursor
        slice.next = table.visitPlaces(from: start, groupsMax: groupsMax) { place in
            let item = place.item
            if item.isDeleted, item.expiry < deletedBefore, item.seqno <= last {
                victims.append(place)
            }
        }
        for victim in victims.reversed() {
            slice.freed += forgetTombstone(victim)
            slice.count += 1
        }
        return slice
    }

    /// The disk forgot the tombstone of a key; memory does as well, unless the key came back.
    package mutating func forgetPurged(_ key: ByteView, hash: UInt64, seqno: Seqno) {
        purgeSeqno = max(purgeSeqno, seqno)
        guard let place = table.find(key, hash: hash) else { return forgetStub(hash, seqno) }
        guard place.item.seqno == seqno, place.item.isDeleted else {
            // It came back since the disk was asked: what is gone there has no successor to be told.
            if let index = superseded.lastIndex(of: seqno) { superseded.remove(at: index) }
            return
        }
        _ = forgetTombstone(place)
    }

    /// Takes a tombstone out of the table; what comes after it starts above its revision.
    private mutating func forgetTombstone(_ place: HashTable.Place) -> Int {
        let item = place.item
        purgeSeqno = max(purgeSeqno, item.seqno)
        maxRevision = max(maxRevision, item.revision)
        forget(item)
        table.remove(place)
        let bytes = item.blockBytes
        guard checkpoint.isReleasable(item.seqno) else {
            // A backfill began since the disk was asked.
            checkpoint.own(item, seqno: item.seqno)
            return 0
        }
        free(item, bytes)
        return SizeClass.footprint(of: bytes)
    }
}
