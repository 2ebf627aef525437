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
    ) -> ReadOutcome {
        guard case .active = state else { return .notMyVBucket }
        if !allowsFastWrite, let refusal = lockRefusal(key, hash) { return refusal }
        let place = table.find(key, hash: hash)
        if let wait = missing(place, hash, tombstones: false) { return .wouldBlock(wait) }
        guard let item = live(place, turn) else { return .notFound }
        if isLocked(item, turn) { return .locked }
        if item.isEjected { return .wouldBlock(.value(item.seqno)) }
        touchFrequency(item)
        item.cas = clock.next(turn.wallNanoseconds)
        item.state.formUnion([.locked, .hasLockCAS])
        lockExpiries[key.bytes] = turn.end(after: seconds)
        return .found(item, cas: item.cas)
    }

    /// Ends a lock before it expires.
    package mutating func unlock(
        _ key: ByteView,
        hash: UInt64,
        cas: CAS,
        _ turn: borrowing ExecutionContext
    ) -> MutationOutcome {
        guard case .active = state else { return .notMyVBucket }
        if !allowsFastWrite, let refusal = writeRefusal(key, hash) { return refusal }
        let place = table.find(key, hash: hash)
        if let wait = missing(place, hash, tombstones: false) { return .wouldBlock(wait) }
        guard let item = live(place, turn) else { return .notFound }
        guard isLocked(item, turn) else { return .notLocked }
        guard item.cas == cas else { return .locked }
        item.state.remove(.locked)
        lockExpiries[key.bytes] = nil
        return .stored(
            Stored(cas: cas, seqno: item.seqno, uuid: uuid, wakesFlusher: false)
        )
    }

    /// The result of a touch: a read's outcome, and whether the flusher has to be woken.
    package struct Touched {
        package let outcome: ReadOutcome
        package let wakesFlusher: Bool
        /// A stream had read every change before this one, and its sender has to be woken.
        package var wakesStreams = false
        /// The bytes that memory is short of, if that caused a temporary failure; else nil.
        package var needed: Int?
    }

    /// Changes a document's expiry; if it is the same already, makes no change.
    package mutating func touch(
        _ key: ByteView,
        hash: UInt64,
        expiry: UInt32,
        _ turn: borrowing ExecutionContext
    ) -> Touched {
        func only(_ outcome: ReadOutcome) -> Touched {
            Touched(outcome: outcome, wakesFlusher: false)
        }
        guard case .active = state else { return only(.notMyVBucket) }
        if !allowsFastWrite, let refusal = lockRefusal(key, hash) { return only(refusal) }
        let place = table.find(key, hash: hash)
        if let wait = missing(place, hash, tombstones: false) { return only(.wouldBlock(wait)) }
        guard let old = live(place, turn) else { return only(.notFound) }
        if isLocked(old, turn) { return only(.locked) }
        if old.isEjected { return only(.wouldBlock(.value(old.seqno))) }
        touchFrequency(old)
        guard old.expiry != expiry else { return only(.found(old, cas: old.cas)) }
        // The old version has to be in memory beside the new one.
        let needed = old.valueCount * 2
        guard account.admits(old.valueCount, of: needed) else {
            return Touched(outcome: .temporaryFailure, wakesFlusher: false, needed: needed)
        }
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
        guard let item = table.find(key, hash: hash)?.item else {
            preconditionFailure("the version that was just stored is in the table")
        }
        return Touched(
            outcome: .found(item, cas: put.cas),
            wakesFlusher: put.wakesFlusher,
            wakesStreams: takeOwedStreamWake()
        )
    }
}
