internal import Bytes
internal import Vocabulary

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

    package init() {}
}

/// What pagers do to a vBucket, a slice for each hold of its lock.
///
/// The visitor only notes places; they stay valid while documents are replaced. A removal moves what
/// lies at or behind a place, so those go from the last to the first.
extension VBucketCore {
    /// Notes what could be ejected in some groups from `start` on.
    package func sample(_ sweep: inout EvictionSweep, from start: UInt64, groupsMax: Int) {
        let last = min(checkpoint.lowestCursor, persistedSeqno)
        _ = table.visit(from: start, groupsMax: groupsMax) { item in
            sweep.noteLookedAt()
            if isPersistent, goesWhole(item, through: last) {
                let bytes = SizeClass.footprint(of: item.blockBytes)
                sweep.note(frequency: item.isDeleted ? 0 : item.frequency, bytes: bytes)
            } else if isPersistent, isEjectable(item, through: last) {
                sweep.note(frequency: item.frequency, bytes: item.valueCount)
            } else if !isPersistent, isDeletable(item) {
                // All of it: where memory is short its tombstone does not stay either.
                let bytes = SizeClass.footprint(of: item.blockBytes)
                sweep.note(frequency: item.frequency, bytes: bytes)
            }
        }
    }

    /// Ejects what is at or below `threshold` in some groups; other counters are halved.
    ///
    /// Values, or whole documents where the bucket's policy has it so; tombstones whatever it says.
    ///
    /// - Parameters:
    ///   - start: Where to begin.
    ///   - groupsMax: How many groups to look at.
    ///   - threshold: The highest frequency of use that goes.
    ///   - isWhole: Whole documents go, whatever the policy says.
    ///   - turn: The caller's.
    /// - Returns: What went, and where to go on.
    package mutating func ejectSlice(
        from start: UInt64,
        groupsMax: Int,
        threshold: UInt8,
        isWhole: Bool = false,
        _ turn: borrowing ExecutionContext
    ) -> PagerSlice {
        var slice = PagerSlice()
        var victims: [HashTable.Place] = []
        let last = min(checkpoint.lowestCursor, persistedSeqno)
        slice.next = table.visitPlaces(from: start, groupsMax: groupsMax) { place in
            let item = place.item
            if item.frequency > threshold, !item.isDeleted {
                item.frequency /= 2
            } else if goesWhole(item, through: last, isForced: isWhole)
                || isEjectable(item, through: last)
            {
                victims.append(place)
            }
        }
        for victim in victims {
            let freed = evict(victim, isForced: isWhole, turn)
            slice.freed += freed
            if freed > 0 { slice.count += 1 }
        }
        return slice
    }

    /// A document that a bucket without a disk may forget where memory is short.
    private func isDeletable(_ item: Item) -> Bool {
        item.state.isDisjoint(with: [.deleted, .locked]) && !isPrepared(item)
    }

    /// Deletes documents at or below `threshold` in some groups, for buckets without a disk.
    ///
    /// Only on the active copy: replicas receive the tombstones.
    package mutating func deleteSlice(
        from start: UInt64,
        groupsMax: Int,
        threshold: UInt8,
        _ turn: borrowing ExecutionContext
    ) -> PagerSlice {
        var slice = PagerSlice()
        guard case .active = state, isWritable else { return slice }
        var victims: [HashTable.Place] = []
        slice.next = table.visitPlaces(from: start, groupsMax: groupsMax) { place in
            let item = place.item
            guard isDeletable(item) else { return }
            if item.frequency > threshold {
                item.frequency /= 2
            } else {
                victims.append(place)
            }
        }
        for victim in victims {
            let before = SizeClass.footprint(of: victim.item.blockBytes)
            let tombstone = bury(victim, isExpired: false, turn)
            slice.freed += before - SizeClass.footprint(of: tombstone.blockBytes)
            slice.count += 1
        }
        slice.wakesFlusher = takePendingWakeup()
        return slice
    }

    /// Turns expired documents of some groups into tombstones, and removes expired locks.
    ///
    /// Only on the active copy: replicas receive the tombstones.
    package mutating func expireSlice(
        from start: UInt64,
        groupsMax: Int,
        _ turn: borrowing ExecutionContext
    ) -> PagerSlice {
        var slice = PagerSlice()
        guard case .active = state, isWritable else { return slice }
        var due: [HashTable.Place] = []
        var locked: [Item] = []
        let now = turn.seconds
        slice.next = table.visitPlaces(from: start, groupsMax: groupsMax) { place in
            let item = place.item
            guard !item.isDeleted else { return }
            let expiry = item.expiry
            if expiry != 0, expiry <= now {
                if !isPrepared(item) { due.append(place) }
            } else if item.state.contains(.locked) {
                locked.append(item)
            }
        }
        for item in locked where !isLocked(item, turn) {
            lockExpiries[item.key.bytes] = nil
            item.state.remove(.locked)
        }
        for place in due { expire(place, turn) }
        slice.count = due.count
        slice.wakesFlusher = takePendingWakeup()
        return slice
    }
}
