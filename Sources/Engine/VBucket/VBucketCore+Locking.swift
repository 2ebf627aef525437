package import Bytes
package import Vocabulary

extension VBucketCore {
    /// Whether a document is locked now; an expired lock has no effect.
    func isLocked(_ item: Item, _ turn: borrowing ExecutionContext) -> Bool {
        guard item.state.contains(.locked) else { return false }
        guard let expiry = lockExpiries[item.key.bytes] else {
            preconditionFailure("a locked document has an entry in the lock table")
        }
        return expiry > turn.seconds
    }

    /// Reads and locks: until the lock expires only a write with the new CAS may change the
    /// document.
    ///
    /// The new CAS is in memory only. A crash forgets lock and CAS together.
    package mutating func getAndLock(
        _ key: ByteView,
        hash: UInt64,
        seconds: UInt32,
        _ turn: borrowing ExecutionContext
    ) -> ReadResult {
        guard case .active = state else { return .refused(.notMyVBucket) }
        if !allowsFastWrite, let obstacle = writeObstacle(key, hash) { return obstacle.map { $0 } }
        let place = table.find(key, hash: hash)
        if let wait = missing(place, hash, tombstones: false) { return .wait(wait) }
        guard let item = live(place, turn) else { return .refused(.notFound) }
        if isLocked(item, turn) { return .refused(.locked) }
        if item.isEjected { return .wait(.value(item.seqno)) }
        touchFrequency(item)
        item.cas = clock.next(turn.wallNanoseconds)
        item.state.formUnion([.locked, .hasLockCAS])
        lockExpiries[key.bytes] = turn.end(after: seconds)
        return .done((item, item.cas))
    }

    /// Ends a lock before it expires.
    package mutating func unlock(
        _ key: ByteView,
        hash: UInt64,
        cas: CAS,
        _ turn: borrowing ExecutionContext
    ) -> WriteResult {
        guard case .active = state else { return .refused(.notMyVBucket) }
        if !allowsFastWrite, let obstacle = writeObstacle(key, hash) {
            return obstacle.map { $0 }
        }
        let place = table.find(key, hash: hash)
        if let wait = missing(place, hash, tombstones: false) { return .wait(wait) }
        guard let item = live(place, turn) else { return .refused(.notFound) }
        guard isLocked(item, turn) else { return .refused(.notLocked) }
        guard item.cas == cas else { return .refused(.locked) }
        item.state.remove(.locked)
        lockExpiries[key.bytes] = nil
        return .done(
            Stored(cas: cas, seqno: item.seqno, uuid: uuid, wakesFlusher: false)
        )
    }

    /// Changes a document's expiry; if it is the same already, makes no change.
    ///
    /// Defers waking the flusher and the streams, as a read does that expires a document.
    package mutating func touch(
        _ key: ByteView,
        hash: UInt64,
        expiry: UInt32,
        _ turn: borrowing ExecutionContext
    ) -> ReadResult {
        guard case .active = state else { return .refused(.notMyVBucket) }
        if !allowsFastWrite, let obstacle = writeObstacle(key, hash) { return obstacle.map { $0 } }
        let place = table.find(key, hash: hash)
        if let wait = missing(place, hash, tombstones: false) { return .wait(wait) }
        guard let place, let old = live(place, turn) else { return .refused(.notFound) }
        if isLocked(old, turn) { return .refused(.locked) }
        if old.isEjected { return .wait(.value(old.seqno)) }
        touchFrequency(old)
        guard old.expiry != expiry else { return .done((old, old.cas)) }
        // The old version has to be in memory beside the new one.
        let needed = old.valueCount * 2
        guard account.admits(old.valueCount, of: needed) else { return .wait(.room(needed)) }
        var meta = old.meta
        meta.expiry = expiry
        let put = put(
            meta,
            key: key,
            hash: hash,
            value: old.value,
            isFresh: false,
            place: place,
            turn
        )
        setPendingWakeup(put.wakesFlusher)
        return .done((place.current, put.cas))
    }
}
