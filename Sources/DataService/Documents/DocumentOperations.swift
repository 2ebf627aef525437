internal import Bytes
internal import Engine
internal import JSON
internal import Vocabulary

/// The operations on one bucket's documents for all callers: client commands, the document browser,
/// and callers without a connection.
///
/// A value for one request on one lane. Each operation is one attempt that runs to completion under
/// the vBucket's lock. An attempt also updates the rest of the bucket: counters, wakeups of the
/// flusher, the streams and the pager, and the registration of durable writes.
///
/// - An attempt that returns `.wait` had no effect. The caller repeats the operation after
///   `OpenBucket.resume(after:of:_:)` has called back.
/// - An attempt that returns `.prepared` is not repeated. `OpenBucket.syncWrites` reports its
///   outcome.
/// - The caller checks the lease: before the attempt, and again before the answer is sent.
/// - Not copyable, because a copy would retain all references.
struct DocumentOperations: ~Copyable {
    let bucket: OpenBucket
    let context: LaneContext
    let turn: ExecutionContext
    /// The durability that the request states; the bucket's minimum also applies.
    var durability: RequestedDurability?
    /// Whether a large write may wait once for the pager to free memory.
    var mayWaitForRoom = true

    /// The durability that one write requests.
    struct RequestedDurability {
        let level: DurabilityLevel
        /// Nil for the server's default.
        let timeoutMilliseconds: UInt64?
    }
}

// MARK: Reads

extension DocumentOperations {
    /// Reads a document; `visit` gets it under the vBucket's lock.
    ///
    /// The CAS that `visit` gets is `.locked` for a locked document.
    @inline(__always)
    func get<Value>(_ document: DocumentAddress, _ visit: (Item, CAS) -> Value) -> DocumentResult<
        Value
    > {
        var wakes = DeferredWakes()
        let result: DocumentResult<Value> = document.vBucket.withCore { core in
            let found = core.get(document.key, hash: document.hash, turn)
            guard case .done(let (item, cas)) = found else {
                wakes.take(from: &core)
                return found.map { _ in preconditionFailure("the other cases have no value") }
            }
            return .done(visit(item, cas))
        }
        note(wakes, document.id)
        return countedGet(result)
    }

    /// Reads a document, and with `includesDeleted` also a tombstone with its value.
    func get<Value>(
        _ document: DocumentAddress,
        includesDeleted: Bool,
        _ visit: (Item, CAS) -> Value
    ) -> DocumentResult<Value> {
        guard includesDeleted else { return get(document, visit) }
        let result = read(document) {
            $0.getAny(document.key, hash: document.hash, turn)
        } visit: { item, cas, _ in
            visit(item, cas)
        }
        return countedGet(result)
    }

    /// Executes a command that reads a document, and may also make a change that its result does
    /// not report: a tombstone of an expired document, or a new expiry.
    private func read<Value>(
        _ document: DocumentAddress,
        _ command: (inout VBucketCore) -> ReadResult,
        visit: (Item, CAS, borrowing VBucketCore) -> Value
    ) -> DocumentResult<Value> {
        var wakes = DeferredWakes()
        let result: DocumentResult<Value> = document.vBucket.withCore { core in
            defer { wakes.take(from: &core) }
            return command(&core).map { visit($0.item, $0.cas, core) }
        }
        note(wakes, document.id)
        return result
    }

    @inline(__always)
    private func countedGet<Value>(_ result: DocumentResult<Value>) -> DocumentResult<Value> {
        switch result {
        case .done: count(.getHits)
        case .refused(.notFound): count(.getMisses)
        case .wait: return result
        default: break
        }
        count(.gets)
        return result
    }

    /// Reads what a replica has, which may be stale.
    ///
    /// Needs no lease, since the answer promises nothing.
    func getReplica<Value>(
        _ document: DocumentAddress,
        includesDeleted: Bool = false,
        _ visit: (Item, CAS) -> Value
    ) -> DocumentResult<Value> {
        let result = document.vBucket.withCore { core in
            core.getReplica(
                document.key,
                hash: document.hash,
                includesDeleted: includesDeleted,
                turn
            ).map(visit)
        }
        return counted(result, .otherCommands)
    }

    /// Reads metadata, a tombstone's too; `visit` gets the item under the vBucket's lock.
    func getMeta<Value>(_ document: DocumentAddress, _ visit: (Item, CAS) -> Value)
        -> DocumentResult<Value>
    {
        counted(readMeta(document) { item, cas, _ in visit(item, cas) }, .otherCommands)
    }

    /// `getMeta` for a command that reads many keys and counts once; `visit` also gets the vBucket,
    /// for comparisons.
    func readMeta<Value>(
        _ document: DocumentAddress,
        _ visit: (Item, CAS, borrowing VBucketCore) -> Value
    ) -> DocumentResult<Value> {
        read(document, { $0.getMeta(document.key, hash: document.hash, turn) }, visit: visit)
    }

    /// `readMeta` of a replica.
    func readReplicaMeta<Value>(
        _ document: DocumentAddress,
        _ visit: (Item, CAS, borrowing VBucketCore) -> Value
    ) -> DocumentResult<Value> {
        document.vBucket.withCore { core in
            let found = core.getReplicaMeta(document.key, hash: document.hash)
            return found.map { visit($0.item, $0.cas, core) }
        }
    }

    /// Reads a document and locks it for `seconds`; the CAS that `visit` gets unlocks it.
    func getAndLock<Value>(
        _ document: DocumentAddress,
        seconds: UInt32,
        _ visit: (Item, CAS) -> Value
    ) -> DocumentResult<Value> {
        let result = document.vBucket.withCore { core in
            core.getAndLock(document.key, hash: document.hash, seconds: seconds, turn).map(visit)
        }
        return counted(result, .otherCommands)
    }

    /// Sets a document's expiry, in absolute seconds, and reads it.
    func touch<Value>(
        _ document: DocumentAddress,
        expiry: UInt32,
        _ visit: (Item, CAS) -> Value
    ) -> DocumentResult<Value> {
        let result = read(document) {
            $0.touch(document.key, hash: document.hash, expiry: expiry, turn)
        } visit: { item, cas, _ in
            visit(item, cas)
        }
        wakePager()
        return counted(roomAwaited(result), .otherCommands)
    }
}

// MARK: Writes

extension DocumentOperations {
    /// SET, ADD and REPLACE.
    ///
    /// The request's expiry is absolute: `expiry(ofField:)`.
    @inline(__always)
    func store(_ document: DocumentAddress, _ request: StoreRequest) -> WriteResult {
        guard request.isWithinLimits else { return .refused(.tooLarge) }
        return write(document, .sets, cas: request.cas) { core, turn in core.store(request, turn) }
    }

    /// SET_WITH_META, ADD_WITH_META and DEL_WITH_META.
    ///
    /// Not durable, also if the bucket has a minimum: the other cluster has made the write already.
    func storeWithMeta(_ document: DocumentAddress, _ request: WithMetaRequest) -> WriteResult {
        guard XattrBlob.isWithinLimits(request.value, request.meta.datatype) else {
            return .refused(.tooLarge)
        }
        let result = document.vBucket.withCore { $0.storeWithMeta(request, turn) }
        let counter: Statistic = request.meta.isDeleted ? .deletes : .sets
        return finish(result, document.id, counter, cas: request.cas)
    }

    func delete(_ document: DocumentAddress, cas: CAS) -> WriteResult {
        write(document, .deletes, cas: cas) { core, turn in
            core.delete(document.key, hash: document.hash, cas: cas, turn)
        }
    }

    /// APPEND and PREPEND.
    func extend(
        _ document: DocumentAddress,
        with bytes: ByteView,
        atFront: Bool,
        cas: CAS
    ) -> WriteResult {
        let validator = context.validator
        return write(document, .sets, cas: cas) { core, turn in
            core.extend(
                document.key,
                hash: document.hash,
                with: bytes,
                atFront: atFront,
                cas: cas,
                isJSON: { validator.isDocument($0) },
                turn
            )
        }
    }

    /// INCREMENT and DECREMENT; `Stored.number` is the counter's new value.
    func count(_ document: DocumentAddress, _ request: ArithmeticRequest) -> WriteResult {
        write(document, .sets, cas: request.cas) { core, turn in core.arithmetic(request, turn) }
    }

    /// Unlocks a document before its lock expires.
    func unlock(_ document: DocumentAddress, cas: CAS) -> WriteResult {
        let result = document.vBucket.withCore {
            $0.unlock(document.key, hash: document.hash, cas: cas, turn)
        }
        return finish(result, document.id, .otherCommands, cas: cas)
    }

    /// The protocol's expiry field as absolute seconds, within the bucket's bound.
    @inline(__always)
    func expiry(ofField field: UInt32) -> UInt32 {
        ExpiryField.absolute(field, maxTTL: bucket.maxTTL, turn)
    }

    /// The datatype of a value that came without one.
    func datatype(of value: ByteView) -> Datatype {
        context.validator.isDocument(value) ? .json : []
    }

    /// Executes a write; a durable one is registered with the service in the same hold of the lock.
    @inline(__always)
    func write(
        _ document: DocumentAddress,
        _ counter: Statistic,
        cas: CAS,
        _ body: (inout VBucketCore, borrowing ExecutionContext) -> WriteResult
    ) -> WriteResult {
        guard isDurable else {
            let result = document.vBucket.withCore { body(&$0, turn) }
            return finish(result, document.id, counter, cas: cas)
        }
        if let refusal = durabilityRefusal(document) { return .refused(refusal) }
        let result = applyDurably(document) { core, turn in body(&core, turn) }
        return finish(result, document.id, counter, cas: cas)
    }

    @inline(__always)
    var isDurable: Bool { durability != nil || bucket.minimumDurability != nil }

    /// The level of a write that `isDurable`.
    private var level: DurabilityLevel {
        let level = [durability?.level, bucket.minimumDurability].compactMap { $0 }
            .max { $0.rawValue < $1.rawValue }
        guard let level else { preconditionFailure("the caller saw a level") }
        return level
    }

    /// Why a durable write cannot reach its level; nil if it can.
    @inline(never)
    func durabilityRefusal(_ document: DocumentAddress) -> DocumentRefusal? {
        bucket.refusal(of: level, document)
    }

    /// Calls `body` with a turn that prepares, and registers a prepared write with the service in
    /// the same hold of the lock: the service completes writes in the order of their seqnos.
    @inline(never)
    func applyDurably<Value>(
        _ document: DocumentAddress,
        _ body: (inout VBucketCore, borrowing ExecutionContext) -> DocumentResult<Value>
    ) -> DocumentResult<Value> {
        var turn = turn
        turn.durability = level
        let timeout = durability?.timeoutMilliseconds ?? SyncWriteService.timeoutMilliseconds
        let times = bucket.syncWrites.times(withinMilliseconds: timeout)
        return document.vBucket.withCore { core in
            let result = body(&core, turn)
            if case .prepared(let stored) = result {
                bucket.syncWrites.enter(stored, level, times: times, of: core.id)
            }
            return result
        }
    }

    /// Updates the rest of the bucket after a write.
    @inline(__always)
    func finish(
        _ result: WriteResult,
        _ id: VBucketID,
        _ counter: Statistic,
        cas: CAS
    ) -> WriteResult {
        // Each case is built anew: the compiler fails to optimise a `result` that is bound and returned.
        switch result {
        case .done(let stored):
            noteChange(stored, id)
            count(counter)
            return .done(stored)
        case .prepared(let stored):
            noteChange(stored, id)
            count(counter)
            return .prepared(stored)
        case .wait(let wait): return undone(.wait(wait), counter, cas: cas)
        case .refused(let refusal): return undone(.refused(refusal), counter, cas: cas)
        }
    }

    @inline(never)
    private func undone(_ result: WriteResult, _ counter: Statistic, cas: CAS) -> WriteResult {
        let isMismatch = if case .refused(.exists) = result { cas != .none } else { false }
        if isMismatch { count(.casMismatches) }
        return counted(roomAwaited(result), counter)
    }
}

// MARK: Updates of the rest of the bucket

extension DocumentOperations {
    @inline(__always)
    private func noteChange(_ stored: Stored, _ id: VBucketID) {
        note(DeferredWakes(flusher: stored.wakesFlusher, streams: stored.wakesStreams), id)
        wakePager()
    }

    @inline(__always)
    private func wakePager() {
        if bucket.engine.account.isAboveHighWatermark { bucket.pager.wake() }
    }

    /// The result of a change that may have found no memory: a large one waits until the pager has
    /// freed it, any other is refused while the pager works.
    private func roomAwaited<Value>(_ result: DocumentResult<Value>) -> DocumentResult<Value> {
        guard case .wait(.room(let bytes)) = result else { return result }
        if mayWaitForRoom, bucket.pager.needsRoom(bytes) { return result }
        bucket.pager.wake()
        count(.temporaryFailures)
        return .refused(.temporaryFailure)
    }

    private func counted<Value>(
        _ result: DocumentResult<Value>,
        _ counter: Statistic
    ) -> DocumentResult<Value> {
        if case .wait = result { return result }
        count(counter)
        return result
    }

    @inline(__always)
    func count(_ counter: Statistic) { bucket.counters.count(counter, on: context) }
}

/// The wake-ups due after a change that no result reports: a read may turn an expired document into
/// a tombstone, and a touch sets an expiry.
struct DeferredWakes {
    var flusher = false
    var streams = false

    @inline(__always)
    mutating func take(from core: inout VBucketCore) {
        flusher = core.takePendingWakeup()
        streams = core.takeOwedStreamWake()
    }
}

extension DocumentOperations {
    @inline(__always)
    func note(_ wakes: DeferredWakes, _ id: VBucketID) {
        if wakes.flusher { bucket.disk?.markDirty(id) }
        if wakes.streams { bucket.traffic.notify(.changed, of: id) }
    }

    /// Wakes what the read of an update that stored nothing left to wake.
    @inline(never)
    func noteRead(_ document: DocumentAddress) {
        var wakes = DeferredWakes()
        document.vBucket.withCore { wakes.take(from: &$0) }
        note(wakes, document.id)
    }
}
