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
        mutate(key, hash: hash, tombstones: false, turn) { core, _, item in
            guard let item else { return .refused(.notFound) }
            if core.isLocked(item, turn) { return .refused(.locked) }
            if item.isEjected { return .wait(.value(item.seqno)) }
            core.touchFrequency(item)
            item.cas = core.clock.next(turn.wallNanoseconds)
            item.state.formUnion([.locked, .hasLockCAS])
            core.lockExpiries[key.bytes] = turn.end(after: seconds)
            return .done((item, item.cas))
        }
    }

    /// Ends a lock before it expires.
    package mutating func unlock(
        _ key: ByteView,
        hash: UInt64,
        cas: CAS,
        _ turn: borrowing ExecutionContext
    ) -> WriteResult {
        mutate(key, hash: hash, tombstones: false, turn) { core, _, item in
            guard let item else { return .refused(.notFound) }
            guard core.isLocked(item, turn) else { return .refused(.notLocked) }
            guard item.cas == cas else { return .refused(.locked) }
            item.state.remove(.locked)
            core.lockExpiries[key.bytes] = nil
            return .done(
                Stored(cas: cas, seqno: item.seqno, uuid: core.uuid, wakesFlusher: false)
            )
        }
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
        mutate(key, hash: hash, tombstones: false, turn) { core, place, old in
            guard let place, let old else { return .refused(.notFound) }
            if core.isLocked(old, turn) { return .refused(.locked) }
            if old.isEjected { return .wait(.value(old.seqno)) }
            core.touchFrequency(old)
            guard old.expiry != expiry else { return .done((old, old.cas)) }
            // The old version has to be in memory beside the new one.
            let needed = old.valueCount * 2
            guard core.account.admits(old.valueCount, of: needed) else {
                return .wait(.room(needed))
            }
            var meta = old.meta
            meta.expiry = expiry
            let put = core.put(
                meta,
                key: key,
                hash: hash,
                value: old.value,
                isFresh: false,
                place: place,
                turn
            )
            core.setPendingWakeup(put.wakesFlusher)
            return .done((place.current, put.cas))
        }
    }
}
