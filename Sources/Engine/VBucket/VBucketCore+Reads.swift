package import Bytes
internal import Vocabulary

extension VBucketCore {
    /// The document with `key`; the caller copies what it needs before the lock is released.
    @inline(__always)
    package mutating func get(
        _ key: ByteView,
        hash: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> ReadResult {
        guard case .active = state else { return .refused(.notMyVBucket) }
        guard let place = table.find(key, hash: hash) else {
            if !isReadable, let obstacle = readObstacle(key, hash) { return obstacle }
            return missing(nil, hash, tombstones: false).map { .wait($0) } ?? .refused(.notFound)
        }
        if !isReadable, let obstacle = readObstacle(key, hash) { return obstacle }
        let item = place.item
        let bits = item.state
        if bits.isDisjoint(with: [.deleted, .valueEjected, .locked, .hasExpiry]) {
            touchFrequency(item)
            return .done((item, item.cas))
        }
        return getSpecial(place, turn)
    }

    /// `get` for documents that are deleted, ejected, locked or have an expiry.
    private mutating func getSpecial(
        _ place: HashTable.Place,
        _ turn: borrowing ExecutionContext
    ) -> ReadResult {
        let item = place.item
        guard !item.isDeleted else { return .refused(.notFound) }
        if isDue(item, turn) {
            // During a hand-over or a hold the copy makes no changes, not even by expiry.
            if isWritable, !isPrepared(item) { expire(place, turn) }
            return .refused(.notFound)
        }
        touchFrequency(item)
        if item.isEjected { return .wait(.value(item.seqno)) }
        return .done((item, isLocked(item, turn) ? .locked : item.cas))
    }

    /// The document with `key` on a replica, for GET_REPLICA.
    ///
    /// The document may be older than the active copy's. If `includesDeleted`, the result may be a
    /// tombstone with its value.
    package mutating func getReplica(
        _ key: ByteView,
        hash: UInt64,
        includesDeleted: Bool = false,
        _ turn: borrowing ExecutionContext
    ) -> ReadResult {
        guard case .replica = state else { return .refused(.notMyVBucket) }
        guard isLoaded else { return .wait(.warmup) }
        if isBeingBuilt { return .refused(.temporaryFailure) }
        guard let place = table.find(key, hash: hash) else {
            return missing(nil, hash, tombstones: includesDeleted).map { .wait($0) }
                ?? .refused(.notFound)
        }
        let item = place.item
        // Only the active copy replaces an expired document by a tombstone.
        guard item.isDeleted ? includesDeleted : !isDue(item, turn) else {
            return .refused(.notFound)
        }
        if item.isEjected { return .wait(.value(item.seqno)) }
        return .done((item, item.cas))
    }

    /// Whether the copy is being built, so that a key without a document may still exist.
    private var isBeingBuilt: Bool {
        let hasNothing = coveredSeqno == .zero && !ownership.hasCaughtUp
        return ownership.exists && (ownership.isResetting || hasNothing)
    }

    /// A document's metadata on a replica.
    package func getReplicaMeta(_ key: ByteView, hash: UInt64) -> ReadResult {
        guard case .replica = state else { return .refused(.notMyVBucket) }
        guard isLoaded else { return .wait(.warmup) }
        if isBeingBuilt { return .refused(.temporaryFailure) }
        guard let item = table.find(key, hash: hash)?.item else {
            return missing(nil, hash, tombstones: true).map { .wait($0) } ?? .refused(.notFound)
        }
        return .done((item, item.cas))
    }

    /// A document's metadata, also a tombstone's.
    package mutating func getMeta(
        _ key: ByteView,
        hash: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> ReadResult {
        guard case .active = state else { return .refused(.notMyVBucket) }
        if !isReadable, let obstacle = readObstacle(key, hash) { return obstacle }
        guard var place = table.find(key, hash: hash) else {
            return missing(nil, hash, tombstones: true).map { .wait($0) } ?? .refused(.notFound)
        }
        if !place.item.isDeleted, isDue(place.item, turn) {
            guard isWritable, !isPrepared(place.item) else { return .refused(.notFound) }
            guard expire(place, turn) else { return .wait(.value(place.item.seqno)) }
            guard let tombstone = table.find(key, hash: hash) else { return .refused(.notFound) }
            place = tombstone
        }
        let item = place.item
        return .done((item, isLocked(item, turn) ? .locked : item.cas))
    }

    /// The document with `key` and its value, also a tombstone.
    package mutating func getAny(
        _ key: ByteView,
        hash: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> ReadResult {
        let result = getMeta(key, hash: hash, turn)
        guard case .done(let (item, _)) = result else { return result }
        if item.isEjected { return .wait(.value(item.seqno)) }
        if !item.isDeleted { touchFrequency(item) }
        return result
    }

    /// Turns an expired document into a tombstone with its own seqno.
    ///
    /// A read's result cannot wake the flusher, so the wakeup is deferred (`setPendingWakeup`).
    ///
    /// - Returns: False, without a change, if the tombstone has to keep attributes of a value that
    ///   is on disk only. The document does not exist for clients; `expireStub` replaces it.
    @discardableResult
    mutating func expire(_ place: HashTable.Place, _ turn: borrowing ExecutionContext) -> Bool {
        guard !awaitsAttributes(place.item) else { return false }
        bury(place, isExpired: true, turn)
        return true
    }

    /// Replaces a document by a tombstone without a client's command, and returns the tombstone.
    ///
    /// The tombstone keeps the document's system attributes, which are in memory.
    @discardableResult
    mutating func bury(
        _ place: HashTable.Place,
        isExpired: Bool,
        _ turn: borrowing ExecutionContext
    ) -> Item {
        let scratchCount = turn.scratch.count
        defer { turn.scratch.truncate(to: scratchCount) }
        let (value, datatype) = tombstoneValue(of: place.item, turn)
        let meta = DocumentMeta(
            expiry: turn.seconds,
            datatype: datatype,
            isDeleted: true,
            isExpired: isExpired
        )
        let key = place.item.key
        // The key is copied, as the item's block may be overwritten.
        withUnsafeTemporaryAllocation(byteCount: key.count, alignment: 1) { buffer in
            buffer.copyMemory(from: key.buffer)
            let put = put(
                meta,
                key: ByteView(UnsafeRawBufferPointer(buffer)),
                hash: 0,
                value: value,
                isFresh: true,
                place: place,
                turn
            )
            setPendingWakeup(put.wakesFlusher)
        }
        return place.current
    }
}
