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
    /// The body, or with `attributes == .replace` the whole stored form.
    package let value: ByteView
    package let flags: UInt32
    /// Absolute seconds, or 0.
    package let expiry: UInt32
    package let datatype: Datatype
    package let cas: CAS
    package let mode: Mode
    package let preservesExpiry: Bool
    package var attributes = AttributePolicy.keep
    /// The version is a tombstone with this value.
    package var isDeleted = false

    @inline(__always)
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

    /// Whether the request stores a body as a live document, as all clients' plain writes do.
    @inline(__always)
    var isPlain: Bool {
        if case .keep = attributes { !isDeleted } else { false }
    }

    /// Whether the value is within its bounds; those of kept attributes are checked by `store`.
    @inline(__always)
    package var isWithinLimits: Bool {
        if case .keep = attributes { return value.count <= Limits.valueBytesMax }
        return XattrBlob.isWithinLimits(value, datatype)
    }
}

extension VBucketCore {
    /// Executes a command that changes or locks a document: checks the vBucket, its admission of
    /// writes and the presence of the key's version, in this order, then calls `edit`.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - hash: Its hash.
    ///   - tombstones: Whether the command needs a tombstone of the key in memory.
    ///   - turn: The time and the arena of the caller.
    ///   - edit: Checks the command's own conditions and makes the change; gets the key's place in
    ///     the table, and the document if it exists for clients.
    /// - Returns: The result of `edit`, or why it was not called.
    @inline(__always)
    mutating func mutate<Value>(
        _ key: ByteView,
        hash: UInt64,
        tombstones: Bool,
        _ turn: borrowing ExecutionContext,
        _ edit: (inout VBucketCore, HashTable.Place?, Item?) -> DocumentResult<Value>
    ) -> DocumentResult<Value> {
        guard case .active = state else { return .refused(.notMyVBucket) }
        if !allowsFastWrite, let obstacle = writeObstacle(key, hash) { return obstacle.map { $0 } }
        let place = table.find(key, hash: hash)
        if let wait = missing(place, hash, tombstones: tombstones) { return .wait(wait) }
        return edit(&self, place, live(place, turn))
    }

    /// Set, add and replace.
    ///
    /// The checks of `mutate` stand here again, because this path is the most frequent write and
    /// is inlined into its callers, where a closure may cost instructions.
    @inline(__always)
    package mutating func store(
        _ request: borrowing StoreRequest,
        _ turn: borrowing ExecutionContext
    ) -> WriteResult {
        guard case .active = state else { return .refused(.notMyVBucket) }
        if !allowsFastWrite, let obstacle = writeObstacle(request.key, request.hash) {
            return obstacle.map { $0 }
        }
        let place = table.find(request.key, hash: request.hash)
        if let wait = missing(place, request.hash, tombstones: true) { return .wait(wait) }
        let old = live(place, turn)
        if request.mode == .add, old != nil { return .refused(.exists) }
        if let refusal = refusal(old, request.cas, turn) { return .refused(refusal) }
        if request.mode == .replace, old == nil { return .refused(.notFound) }
        guard request.isPlain, old?.hasAttributes != true else {
            return storeWithAttributes(request, over: old, at: place, turn)
        }
        let count = request.value.count
        guard account.admits(count, of: count) else { return .wait(.room(count)) }
        var meta = DocumentMeta(
            flags: request.flags,
            expiry: request.expiry,
            datatype: request.datatype
        )
        if request.preservesExpiry, let old { meta.expiry = old.expiry }
        let (key, hash, value) = (request.key, request.hash, request.value)
        return write(meta, key: key, hash: hash, value: value, place: place, turn)
    }

    /// Makes a version from a value outside the table: a prepare if the write is durable.
    @inline(__always)
    mutating func write(
        _ meta: DocumentMeta,
        key: ByteView,
        hash: UInt64,
        value: ByteView,
        place: HashTable.Place?,
        number: UInt64 = 0,
        _ turn: borrowing ExecutionContext
    ) -> WriteResult {
        if let level = turn.durability {
            let put = prepare(meta, level, key: key, hash: hash, value: value, place: place, turn)
            return .prepared(stored(put, number: number))
        }
        let put = put(
            meta,
            key: key,
            hash: hash,
            value: value,
            isFresh: true,
            place: place,
            turn
        )
        return .done(stored(put, number: number))
    }

    /// Why a change with `cas` is refused: `old` is locked, missing, or another version; nil if the
    /// change is allowed.
    @inline(__always)
    package func refusal(_ old: Item?, _ cas: CAS, _ turn: borrowing ExecutionContext)
        -> DocumentRefusal?
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
    ///
    /// The tombstone keeps the document's system attributes.
    package mutating func delete(
        _ key: ByteView,
        hash: UInt64,
        cas: CAS,
        _ turn: borrowing ExecutionContext
    ) -> WriteResult {
        mutate(key, hash: hash, tombstones: false, turn) { core, place, old in
            guard let old else { return .refused(.notFound) }
            if let refusal = core.refusal(old, cas, turn) { return .refused(refusal) }
            if core.awaitsAttributes(old) { return .wait(.value(old.seqno)) }
            let scratchCount = turn.scratch.count
            defer { turn.scratch.truncate(to: scratchCount) }
            let (value, datatype) = core.tombstoneValue(of: old, turn)
            let meta = DocumentMeta(expiry: turn.seconds, datatype: datatype, isDeleted: true)
            // A prepare is in memory beside the document. Another deletion frees memory in the end,
            // so it may use the bytes above the ceiling. Without a bound, values that were fetched
            // for their attributes could outgrow memory: those of tombstones cannot be ejected
            // before they are persisted.
            let isAdmitted =
                turn.durability == nil
                ? core.account.admitsCopy(value.count)
                : core.account.admits(value.count, of: value.count)
            guard value.isEmpty || isAdmitted else { return .wait(.room(value.count)) }
            return core.write(meta, key: key, hash: hash, value: value, place: place, turn)
        }
    }

    /// Adds bytes before or behind a document's body.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - hash: Its hash.
    ///   - bytes: What to add.
    ///   - atFront: Whether to add before the body instead of after it.
    ///   - cas: The version to change, or `.none` for any.
    ///   - isJSON: Returns whether the new body is a JSON document.
    ///   - turn: The time and the arena of the caller.
    /// - Returns: The result of the write.
    package mutating func extend(
        _ key: ByteView,
        hash: UInt64,
        with bytes: ByteView,
        atFront: Bool,
        cas: CAS,
        isJSON: (ByteView) -> Bool,
        _ turn: borrowing ExecutionContext
    ) -> WriteResult {
        mutate(key, hash: hash, tombstones: false, turn) { core, place, old in
            guard let old else {
                return .refused(cas == .none ? .notStored : .notFound)
            }
            if let refusal = core.refusal(old, cas, turn) { return .refused(refusal) }
            if old.isEjected { return .wait(.value(old.seqno)) }
            let (body, kept) = (old.body, old.attributes)
            let isAllowed =
                kept?.allowsBody(of: body.count + bytes.count)
                ?? (body.count + bytes.count <= Limits.valueBytesMax)
            guard isAllowed else { return .refused(.tooLarge) }
            let count = old.valueCount + bytes.count
            // The old value has to be in memory beside the new one.
            let needed = count + old.valueCount
            guard core.account.admits(count, of: needed) else { return .wait(.room(needed)) }
            let prefix = old.value.slice(0, kept?.byteCount ?? 0)
            let value = Self.join(
                prefix,
                atFront ? bytes : body,
                atFront ? body : bytes,
                in: turn.scratch
            )
            var meta = DocumentMeta(flags: old.flags, expiry: old.expiry)
            if isJSON(value.dropFirst(prefix.count)) { meta.datatype.insert(.json) }
            if kept != nil { meta.datatype.insert(.xattr) }
            return core.write(meta, key: key, hash: hash, value: value, place: place, turn)
        }
    }
}

/// A client's request to change a counter.
package struct ArithmeticRequest {
    package let key: ByteView
    package let hash: UInt64
    package let isIncrement: Bool
    package let delta: UInt64
    /// The value of a missing counter; nil if the counter has to exist.
    package let initial: UInt64?
    /// Absolute seconds for a counter that is created, or 0.
    package let expiry: UInt32
    package let cas: CAS

    package init(
        key: ByteView,
        hash: UInt64,
        isIncrement: Bool,
        delta: UInt64,
        initial: UInt64?,
        expiry: UInt32,
        cas: CAS
    ) {
        self.key = key
        self.hash = hash
        self.isIncrement = isIncrement
        self.delta = delta
        self.initial = initial
        self.expiry = expiry
        self.cas = cas
    }
}

extension VBucketCore {
    /// Increments (wrapping at 2^64) or decrements (stopping at 0) a number stored as its digits.
    package mutating func arithmetic(
        _ request: ArithmeticRequest,
        _ turn: borrowing ExecutionContext
    ) -> WriteResult {
        mutate(request.key, hash: request.hash, tombstones: request.initial != nil, turn) {
            core,
            place,
            old in
            if let refusal = core.refusal(old, request.cas, turn) { return .refused(refusal) }
            guard core.account.admits(64) else { return .wait(.room(64)) }
            var meta = DocumentMeta(expiry: request.expiry, datatype: .json)
            let number: UInt64
            var kept = ByteView.empty
            if let old {
                if old.isEjected { return .wait(.value(old.seqno)) }
                guard let current = Self.number(old.body) else { return .refused(.notANumber) }
                let (delta, isIncrement) = (request.delta, request.isIncrement)
                number = isIncrement ? current &+ delta : current - min(current, delta)
                meta.flags = old.flags
                meta.expiry = old.expiry
                if let attributes = old.attributes {
                    let digits = String(number).utf8.count
                    guard attributes.allowsBody(of: digits) else { return .refused(.tooLarge) }
                    let needed = attributes.byteCount + old.valueCount
                    guard core.account.admits(attributes.byteCount, of: needed) else {
                        return .wait(.room(needed))
                    }
                    kept = old.value.slice(0, attributes.byteCount)
                    meta.datatype.insert(.xattr)
                }
            } else {
                guard let initial = request.initial else { return .refused(.notFound) }
                number = initial
            }
            turn.scratch.removeAll()
            turn.scratch.append(kept)
            turn.scratch.append(text: String(number))
            return core.write(
                meta,
                key: request.key,
                hash: request.hash,
                value: turn.scratch.view,
                place: place,
                number: number,
                turn
            )
        }
    }

    /// The number that ASCII digits spell, up to 2^64 - 1.
    private static func number(_ digits: ByteView) -> UInt64? {
        guard !digits.isEmpty, digits.count <= 20 else { return nil }
        var number: UInt64 = 0
        for offset in 0..<digits.count {
            let digit = digits[offset] &- 0x30
            guard digit <= 9 else { return nil }
            let (scaled, overflow) = number.multipliedReportingOverflow(by: 10)
            let (sum, carry) = scaled.addingReportingOverflow(UInt64(digit))
            guard !overflow, !carry else { return nil }
            number = sum
        }
        return number
    }
}

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
