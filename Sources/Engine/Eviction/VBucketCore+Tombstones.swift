package import Bytes
package import Vocabulary

/// The number of tombstones of a vBucket, and of those that may be purged.
package struct TombstoneCensus: Sendable {
    /// Versions of any kind, tombstones included.
    package var documents = 0
    /// Tombstones, and those of them that are whole in memory.
    package var tombstones = 0
    package var resident = 0
    /// Resident tombstones that may be purged.
    package var due = 0

    package init() {}

    /// Tombstones in memory as stubs only: their age is on disk.
    package var unknown: Int { max(tombstones - resident, 0) }
}

/// Purges tombstones after their interval; without a disk, earlier if memory is short.
extension VBucketCore {
    /// The seqno up to which the flusher and all cursors have read every tombstone.
    package var purgeableSeqno: Seqno {
        isPersistent ? min(checkpoint.lowestCursor, persistedSeqno) : checkpoint.lowestCursor
    }

    /// Counts tombstones in some groups; returns the start of the next call, nil at the end.
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

    /// Removes tombstones older than `deletedBefore`, for buckets without a disk.
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

    /// Removes a tombstone that was purged from disk, unless the key has a newer version.
    package mutating func forgetPurged(_ key: ByteView, hash: UInt64, seqno: Seqno) {
        purgeSeqno = max(purgeSeqno, seqno)
        guard let place = table.find(key, hash: hash) else { return forgetStub(hash, seqno) }
        guard place.item.seqno == seqno, place.item.isDeleted else {
            // The key was written during the purge: the purged version must not be listed as
            // superseded in the next commit.
            if let index = superseded.lastIndex(of: seqno) { superseded.remove(at: index) }
            return
        }
        _ = forgetTombstone(place)
    }

    /// Removes a tombstone from the table; the key's next version starts above its revision.
    private mutating func forgetTombstone(_ place: HashTable.Place) -> Int {
        let item = place.item
        purgeSeqno = max(purgeSeqno, item.seqno)
        maxRevision = max(maxRevision, item.revision)
        forget(item)
        table.remove(place)
        let bytes = item.blockBytes
        guard checkpoint.isReleasable(item.seqno) else {
            // A backfill that began during the purge has to read it.
            checkpoint.own(item, seqno: item.seqno)
            return 0
        }
        free(item, bytes)
        return SizeClass.footprint(of: bytes)
    }
}
