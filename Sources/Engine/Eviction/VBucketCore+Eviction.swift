package import Bytes
package import Vocabulary

/// What one slice of a pager's way through a vBucket came to.
package struct PagerSlice {
    /// Where to go on; nil at the end of the vBucket.
    package var next: UInt64?
    /// Bytes that came free.
    package var freed = 0
    /// Documents ejected, expired or deleted.
    package var count = 0
    /// The flusher had nothing to do before this: it has to be told.
    package var wakesFlusher = false
}

/// What pagers do to a vBucket, a slice for each hold of its lock.
extension VBucketCore {
    /// Notes what could be ejected in some groups from `start` on.
    package func sample(_ sweep: inout EvictionSweep, from start: UInt64, groupsMax: Int) {
        _ = table.visit(from: start, groupsMax: groupsMax) { item in
            sweep.noteLookedAt()
            if isEjectable(item) {
                sweep.note(frequency: item.frequency, bytes: item.valueCount)
            }
        }
    }

    /// Ejects values at or below `threshold` in some groups; other counters are halved.
    package mutating func ejectSlice(
        from start: UInt64,
        groupsMax: Int,
        threshold: UInt8,
        hash: KeyHash,
        _ turn: borrowing Turn
    ) -> PagerSlice {
        var slice = PagerSlice()
        var victims: [Item] = []
        slice.next = table.visit(from: start, groupsMax: groupsMax) { item in
            if item.frequency > threshold {
                item.frequency /= 2
            } else if isEjectable(item) {
                victims.append(item)
            }
        }
        for victim in victims {
            let key = victim.key
            let freed = eject(key, hash: hash(key), turn)
            slice.freed += freed
            if freed > 0 { slice.count += 1 }
        }
        return slice
    }

    /// Deletes documents at or below `threshold` in some groups, for buckets without a disk.
    package mutating func deleteSlice(
        from start: UInt64,
        groupsMax: Int,
        threshold: UInt8,
        hash: KeyHash,
        _ turn: borrowing Turn
    ) -> PagerSlice {
        var slice = PagerSlice()
        var victims: [[UInt8]] = []
        slice.next = table.visit(from: start, groupsMax: groupsMax) { item in
            guard !item.isDeleted else { return }
            if item.frequency > threshold {
                item.frequency /= 2
            } else if !item.state.contains(.locked) {
                victims.append(item.key.bytes)
            }
        }
        for key in victims {
            key.withUnsafeBytes { buffer in
                let view = ByteView(buffer)
                let keyHash = hash(view)
                guard let place = table.find(view, hash: keyHash) else { return }
                let before = place.item.blockBytes
                let meta = DocumentMeta(expiry: turn.seconds, isDeleted: true)
                let put = put(
                    meta,
                    key: view,
                    hash: keyHash,
                    value: .empty,
                    isFresh: true,
                    place: place,
                    turn
                )
                slice.wakesFlusher = slice.wakesFlusher || put.wakesFlusher
                slice.count += 1
                slice.freed += SizeClass.footprint(of: before) - SizeClass.footprint(of: 64)
            }
        }
        return slice
    }

    /// Forgets tombstones older than `deletedBefore`, for buckets without a disk.
    package mutating func forgetTombstones(
        from start: UInt64,
        groupsMax: Int,
        deletedBefore: UInt32,
        hash: KeyHash
    ) -> PagerSlice {
        precondition(!isPersistent, "tombstones on disk are purged there first")
        var slice = PagerSlice()
        var victims: [[UInt8]] = []
        slice.next = table.visit(from: start, groupsMax: groupsMax) { item in
            if item.isDeleted, item.expiry < deletedBefore, item.seqno <= checkpoint.lowestCursor {
                victims.append(item.key.bytes)
            }
        }
        for key in victims {
            key.withUnsafeBytes { buffer in
                let view = ByteView(buffer)
                if let place = table.find(view, hash: hash(view)), place.item.isDeleted {
                    slice.freed += forgetTombstone(place)
                    slice.count += 1
                }
            }
        }
        return slice
    }

    /// Takes a tombstone out of the table; what comes after it starts above its revision.
    private mutating func forgetTombstone(_ place: HashTable.Place) -> Int {
        let item = place.item
        purgeSeqno = max(purgeSeqno, item.seqno)
        maxRevision = max(maxRevision, item.revision)
        forget(item)
        table.remove(place)
        let bytes = item.blockBytes
        free(item, bytes)
        return SizeClass.footprint(of: bytes)
    }

    /// Forgets a tombstone that was purged from disk, unless its key changed since.
    package mutating func forgetPurged(_ key: ByteView, hash: UInt64, seqno: Seqno) {
        guard let place = table.find(key, hash: hash), place.item.seqno == seqno,
            place.item.isDeleted
        else { return }
        _ = forgetTombstone(place)
    }

    /// Turns documents whose time has come into tombstones, in some groups.
    package mutating func expireSlice(
        from start: UInt64,
        groupsMax: Int,
        hash: KeyHash,
        _ turn: borrowing Turn
    ) -> PagerSlice {
        var slice = PagerSlice()
        guard state == .active, isLoaded else { return slice }
        var victims: [[UInt8]] = []
        let seconds = turn.seconds
        slice.next = table.visit(from: start, groupsMax: groupsMax) { item in
            let expiry = item.expiry
            if !item.isDeleted, expiry != 0, expiry <= seconds { victims.append(item.key.bytes) }
        }
        for key in victims {
            key.withUnsafeBytes { buffer in
                let view = ByteView(buffer)
                guard let place = table.find(view, hash: hash(view)) else { return }
                expire(place, turn)
                slice.count += 1
            }
        }
        slice.wakesFlusher = takeOwedWake()
        return slice
    }
}
