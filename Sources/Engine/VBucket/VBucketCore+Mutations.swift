package import Bytes
package import Vocabulary

/// A client's request to store a document.
package struct StoreRequest {
    package enum Mode {
        case set
        case add
        case replace
    }

    package let key: ByteView
    package let hash: UInt64
    package let value: ByteView
    package let flags: UInt32
    /// Absolute seconds, or 0.
    package let expiry: UInt32
    package let datatype: Datatype
    package let cas: CAS
    package let mode: Mode
    package let preservesExpiry: Bool

    package init(
        key: ByteView,
        hash: UInt64,
        value: ByteView,
        flags: UInt32,
        expiry: UInt32,
        datatype: Datatype,
        cas: CAS,
        mode: Mode,
        preservesExpiry: Bool
    ) {
        self.key = key
        self.hash = hash
        self.value = value
        self.flags = flags
        self.expiry = expiry
        self.datatype = datatype
        self.cas = cas
        self.mode = mode
        self.preservesExpiry = preservesExpiry
    }
}

extension VBucketCore {
    /// Set, add and replace.
    @inline(__always)
    package mutating func store(
        _ request: borrowing StoreRequest,
        _ turn: borrowing ExecutionContext
    ) -> MutationOutcome {
        guard case .active = state else { return .notMyVBucket }
        if !allowsFastWrite, let refusal = writeRefusal(request.key, request.hash) {
            return refusal
        }
        let place = table.find(request.key, hash: request.hash)
        if let wait = missing(place, request.hash, tombstones: true) { return .wouldBlock(wait) }
        let old = live(place, turn)
        if request.mode == .add, old != nil { return .exists }
        if let refusal = refusal(old, request.cas, turn) { return refusal }
        if request.mode == .replace, old == nil { return .notFound }
        let count = request.value.count
        guard account.admits(count, of: count) else { return .noRoom(count) }
        var meta = DocumentMeta(
            flags: request.flags,
            expiry: request.expiry,
            datatype: request.datatype
        )
        if request.preservesExpiry, let old { meta.expiry = old.expiry }
        if let level = turn.durability {
            let (key, hash, value) = (request.key, request.hash, request.value)
            return prepare(meta, level, key: key, hash: hash, value: value, place: place, turn)
        }
        let put = put(
            meta,
            key: request.key,
            hash: request.hash,
            value: request.value,
            isFresh: true,
            place: place,
            turn
        )
        return .stored(stored(put))
    }

    /// Why a change with `cas` is refused: `old` is locked, missing, or another version; nil if the
    /// change is allowed.
    @inline(__always)
    package func refusal(_ old: Item?, _ cas: CAS, _ turn: borrowing ExecutionContext)
        -> MutationOutcome?
    {
        guard let old else { return cas == .none ? nil : .notFound }
        if old.state.contains(.locked), isLocked(old, turn), cas != old.cas { return .locked }
        return cas == .none || cas == old.cas ? nil : .exists
    }

    @inline(__always)
    mutating func stored(_ put: Put, number: UInt64 = 0) -> Stored {
        Stored(
            cas: put.cas,
            seqno: put.seqno,
            uuid: uuid,
            wakesFlusher: put.wakesFlusher,
            wakesStreams: takeOwedStreamWake(),
            number: number
        )
    }

    /// Replaces a document by a tombstone, which replicas and views receive.
    package mutating func delete(
        _ key: ByteView,
        hash: UInt64,
        cas: CAS,
        _ turn: borrowing ExecutionContext
    ) -> MutationOutcome {
        guard case .active = state else { return .notMyVBucket }
        if !allowsFastWrite, let refusal = writeRefusal(key, hash) { return refusal }
        let place = table.find(key, hash: hash)
        if let wait = missing(place, hash, tombstones: false) { return .wouldBlock(wait) }
        guard let old = live(place, turn) else { return .notFound }
        if let refusal = refusal(old, cas, turn) { return refusal }
        let meta = DocumentMeta(expiry: turn.seconds, isDeleted: true)
        if let level = turn.durability {
            return prepare(meta, level, key: key, hash: hash, value: .empty, place: place, turn)
        }
        let put = put(
            meta,
            key: key,
            hash: hash,
            value: .empty,
            isFresh: true,
            place: place,
            turn
        )
        return .stored(stored(put))
    }

    /// Adds bytes before or behind a document's value.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - hash: Its hash.
    ///   - bytes: What to add.
    ///   - atFront: Whether to add before the value instead of after it.
    ///   - cas: The version to change, or `.none` for any.
    ///   - isJSON: Returns whether the new value is a JSON document.
    ///   - turn: The time and the arena of the caller.
    /// - Returns: The outcome of the write.
    package mutating func extend(
        _ key: ByteView,
        hash: UInt64,
        with bytes: ByteView,
        atFront: Bool,
        cas: CAS,
        isJSON: (ByteView) -> Bool,
        _ turn: borrowing ExecutionContext
    ) -> MutationOutcome {
        guard case .active = state else { return .notMyVBucket }
        if !allowsFastWrite, let refusal = writeRefusal(key, hash) { return refusal }
        let place = table.find(key, hash: hash)
        if let wait = missing(place, hash, tombstones: false) { return .wouldBlock(wait) }
        guard let old = live(place, turn) else { return cas == .none ? .notStored : .notFound }
        if let refusal = refusal(old, cas, turn) { return refusal }
        if old.isEjected { return .wouldBlock(.value(old.seqno)) }
        let count = old.valueCount + bytes.count
        guard count <= Limits.valueBytesMax else { return .tooLarge }
        // The old value has to be in memory beside the new one.
        let needed = count + old.valueCount
        guard account.admits(count, of: needed) else { return .noRoom(needed) }
        let scratch = turn.scratch
        scratch.removeAll(keepingAtMost: 1 << 20)
        if atFront { scratch.append(bytes) }
        scratch.append(old.value)
        if !atFront { scratch.append(bytes) }
        let meta = DocumentMeta(
            flags: old.flags,
            expiry: old.expiry,
            datatype: isJSON(scratch.view) ? .json : []
        )
        if let level = turn.durability {
            let value = scratch.view
            return prepare(meta, level, key: key, hash: hash, value: value, place: place, turn)
        }
        let put = put(
            meta,
            key: key,
            hash: hash,
            value: scratch.view,
            isFresh: true,
            place: place,
            turn
        )
        return .stored(stored(put))
    }
}
