internal import Bytes
internal import Vocabulary

/// The result of one slice of a pager's pass over a vBucket.
package struct PagerSlice {
    /// The start of the next slice; nil at the end of the vBucket.
    package var next: UInt64?
    /// Bytes that were freed.
    package var freed = 0
    /// Documents ejected, expired or deleted.
    package var count = 0
    /// The flusher had persisted everything before this slice and has to be woken.
    package var wakesFlusher = false

    package init() {}
}

/// The pagers' work on a vBucket, one slice for each hold of its lock.
///
/// A visit only collects places, which stay valid while documents are replaced. A removal moves
/// entries at and after a place, so places are removed from the last to the first.
extension VBucketCore {
    /// Samples the ejectable bytes of up to `groupsMax` groups from `start` on.
    package func sample(_ sweep: inout EvictionSweep, from start: UInt64, groupsMax: Int) {
        let last = min(checkpoint.lowestCursor, persistedSeqno)
        _ = table.visit(from: start, groupsMax: groupsMax) { item in
            sweep.noteLookedAt()
            if isPersistent, goesWhole(item, through: last) {
                let bytes = SizeClass.footprint(of: item.blockBytes)
                sweep.note(frequency: item.isDeleted ? 0 : item.frequency, bytes: bytes)
            } else if isPersistent, isEjectable(item, through: last) {
                let frequency = item.isDeleted ? 0 : item.frequency
                sweep.note(frequency: frequency, bytes: item.valueCount)
            } else if !isPersistent, isDeletable(item) {
                // The whole block counts: if memory is short, the tombstone is removed as well.
                let bytes = SizeClass.footprint(of: item.blockBytes)
                sweep.note(frequency: item.frequency, bytes: bytes)
            }
        }
    }

    /// Ejects documents at or below the frequency `threshold` in some groups; halves other
    /// counters.
    ///
    /// Ejects values, or whole documents if the bucket's policy is `fullEviction`; tombstones under
    /// any policy.
    ///
    /// - Parameters:
    ///   - start: The first group: 0, or the previous slice's `next`.
    ///   - groupsMax: Maximum groups to visit.
    ///   - threshold: The highest frequency of use to eject.
    ///   - isWhole: Whether to eject whole documents under any policy.
    ///   - turn: The time and the arena of the caller.
    /// - Returns: The ejected bytes and documents, and the start of the next slice.
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

    /// Whether a bucket without a disk may delete this document if memory is short.
    private func isDeletable(_ item: Item) -> Bool {
        item.state.isDisjoint(with: [.deleted, .locked]) && !isPrepared(item)
    }

    /// Deletes documents at or below `threshold` in some groups, for buckets without a disk.
    ///
    /// Deletes on the active copy only: replicas receive the tombstones.
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
    /// Documents whose attributes are on disk only are left to the next `StubScan`. Only on the
    /// active copy: replicas receive the tombstones.
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
        for place in due {
            if expire(place, turn) {
                slice.count += 1
            } else {
                // A scan of the disk finds the attributes that the tombstone keeps.
                stubExpiry.note(place.item.expiry)
            }
        }
        slice.wakesFlusher = takePendingWakeup()
        return slice
    }
}
