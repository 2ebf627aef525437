package import Bytes
internal import Vocabulary

extension VBucketCore {
    /// Why nothing can be written, where that is so.
    var writeObstacle: Wait { isLoaded ? .handOver : .warmup }

    /// The document with `key`; the caller copies what it needs before the lock is released.
    @inline(__always)
    package mutating func get(
        _ key: ByteView,
        hash: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> ReadOutcome {
        guard case .active = state else { return .notMyVBucket }
        guard let place = table.find(key, hash: hash) else {
            if !isReadable, let refusal = readRefusal(key, hash) { return refusal }
            return missing(nil, hash, tombstones: false).map { .wouldBlock($0) } ?? .notFound
        }
        if !isReadable, let refusal = readRefusal(key, hash) { return refusal }
        let item = place.item
        let bits = item.state
        if bits.isDisjoint(with: [.deleted, .valueEjected, .locked, .hasExpiry]) {
            touchFrequency(item)
            return .found(item, cas: item.cas)
        }
        return getSpecial(place, turn)
    }

    /// The rarer cases of `get`.
    private mutating func getSpecial(
        _ place: HashTable.Place,
        _ turn: borrowing ExecutionContext
    ) -> ReadOutcome {
        let item = place.item
        guard !item.isDeleted else { return .notFound }
        if isDue(item, turn) {
            // A copy that is handed over changes no more, not even by itself.
            if isWritable, !isPrepared(item) { expire(place, turn) }
            return .notFound
        }
        touchFrequency(item)
        if item.isEjected { return .wouldBlock(.value(item.seqno)) }
        return .found(item, cas: isLocked(item, turn) ? .locked : item.cas)
    }

    /// The same of a copy that follows another one: whatever it has, as GET_REPLICA asks for it.
    package mutating func getReplica(
        _ key: ByteView,
        hash: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> ReadOutcome {
        guard case .replica = state else { return .notMyVBucket }
        guard isLoaded else { return .wouldBlock(.warmup) }
        if isBeingBuilt { return .temporaryFailure }
        guard let place = table.find(key, hash: hash) else {
            return missing(nil, hash, tombstones: false).map { .wouldBlock($0) } ?? .notFound
        }
        let item = place.item
        // Its active copy makes the tombstone.
        guard !item.isDeleted, !isDue(item, turn) else { return .notFound }
        if item.isEjected { return .wouldBlock(.value(item.seqno)) }
        return .found(item, cas: item.cas)
    }

    /// A copy that knows of no key yet whether there is one.
    private var isBeingBuilt: Bool {
        let hasNothing = coveredSeqno == .zero && !ownership.hasCaughtUp
        return ownership.exists && (ownership.isResetting || hasNothing)
    }

    /// A document's metadata as a copy has it that follows another one.
    package func getReplicaMeta(_ key: ByteView, hash: UInt64) -> ReadOutcome {
        guard case .replica = state else { return .notMyVBucket }
        guard isLoaded else { return .wouldBlock(.warmup) }
        if isBeingBuilt { return .temporaryFailure }
        guard let item = table.find(key, hash: hash)?.item else {
            return missing(nil, hash, tombstones: true).map { .wouldBlock($0) } ?? .notFound
        }
        return .found(item, cas: item.cas)
    }

    /// A document's metadata, of a tombstone too.
    package mutating func getMeta(
        _ key: ByteView,
        hash: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> ReadOutcome {
        guard case .active = state else { return .notMyVBucket }
        if !isReadable, let refusal = readRefusal(key, hash) { return refusal }
        guard var place = table.find(key, hash: hash) else {
            return missing(nil, hash, tombstones: true).map { .wouldBlock($0) } ?? .notFound
        }
        if !place.item.isDeleted, isDue(place.item, turn) {
            guard isWritable, !isPrepared(place.item) else { return .notFound }
            expire(place, turn)
            guard let tombstone = table.find(key, hash: hash) else { return .notFound }
            place = tombstone
        }
        let item = place.item
        return .found(item, cas: isLocked(item, turn) ? .locked : item.cas)
    }

    /// Turns an expired document into a tombstone with its own seqno.
    ///
    /// Reads have no way to tell the flusher, so the vBucket owes it.
    mutating func expire(_ place: HashTable.Place, _ turn: borrowing ExecutionContext) {
        bury(place, isExpired: true, turn)
    }

    /// Replaces a document by a tombstone without a client's command, and returns the tombstone.
    @discardableResult
    mutating func bury(
        _ place: HashTable.Place,
        isExpired: Bool,
        _ turn: borrowing ExecutionContext
    ) -> Item {
        let meta = DocumentMeta(expiry: turn.seconds, isDeleted: true, isExpired: isExpired)
        let key = place.item.key
        // A copy, as the item's own block may be written over.
        withUnsafeTemporaryAllocation(byteCount: key.count, alignment: 1) { buffer in
            buffer.copyMemory(from: key.buffer)
            let put = put(
                meta,
                key: ByteView(UnsafeRawBufferPointer(buffer)),
                hash: 0,
                value: .empty,
                isFresh: true,
                place: place,
                turn
            )
            setPendingWakeup(put.wakesFlusher)
        }
        return place.current
    }
}
