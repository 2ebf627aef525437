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
/// - An attempt that returns `.waits` had no effect. The caller repeats the operation after
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
    func get(_ document: DocumentAddress, _ visit: (Item, CAS) -> Void) -> AttemptOutcome {
        var expiry = ExpiryWakes()
        let outcome: AttemptOutcome = document.vBucket.withCore { core in
            switch core.get(document.key, hash: document.hash, turn) {
            case .found(let item, let cas):
                visit(item, cas)
                return .found
            case let other:
                expiry.take(from: &core)
                return AttemptOutcome(withoutItem: other)
            }
        }
        note(expiry, document.id)
        return countedGet(outcome)
    }

    /// Reads a document, and with `includesDeleted` also a tombstone with its value.
    func get(
        _ document: DocumentAddress,
        includesDeleted: Bool,
        _ visit: (Item, CAS) -> Void
    ) -> AttemptOutcome {
        guard includesDeleted else { return get(document, visit) }
        var expiry = ExpiryWakes()
        let outcome: AttemptOutcome = document.vBucket.withCore { core in
            defer { expiry.take(from: &core) }
            return AttemptOutcome(core.getAny(document.key, hash: document.hash, turn), visit)
        }
        note(expiry, document.id)
        return countedGet(outcome)
    }

    @inline(__always)
    private func countedGet(_ outcome: AttemptOutcome) -> AttemptOutcome {
        switch outcome {
        case .found: count(.getHits)
        case .refused(.notFound): count(.getMisses)
        case .waits: return outcome
        default: break
        }
        count(.gets)
        return outcome
    }

    /// Reads what a replica has, which may be stale.
    ///
    /// Needs no lease, since the answer promises nothing.
    func getReplica(
        _ document: DocumentAddress,
        includesDeleted: Bool = false,
        _ visit: (Item, CAS) -> Void
    ) -> AttemptOutcome {
        let outcome: AttemptOutcome = document.vBucket.withCore { core in
            let found = core.getReplica(
                document.key,
                hash: document.hash,
                includesDeleted: includesDeleted,
                turn
            )
            return AttemptOutcome(found, visit)
        }
        return counted(outcome, .otherCommands)
    }

    /// Reads metadata, a tombstone's too; `visit` gets the item under the vBucket's lock.
    func getMeta(_ document: DocumentAddress, _ visit: (Item, CAS) -> Void) -> AttemptOutcome {
        counted(readMeta(document) { item, cas, _ in visit(item, cas) }, .otherCommands)
    }

    /// `getMeta` for a command that reads many keys and counts once; `visit` also gets the vBucket,
    /// for comparisons.
    func readMeta(
        _ document: DocumentAddress,
        _ visit: (Item, CAS, borrowing VBucketCore) -> Void
    ) -> AttemptOutcome {
        var expiry = ExpiryWakes()
        let outcome: AttemptOutcome = document.vBucket.withCore { core in
            defer { expiry.take(from: &core) }
            let found = core.getMeta(document.key, hash: document.hash, turn)
            return AttemptOutcome(found) { visit($0, $1, core) }
        }
        note(expiry, document.id)
        return outcome
    }

    /// `readMeta` of a replica.
    func readReplicaMeta(
        _ document: DocumentAddress,
        _ visit: (Item, CAS, borrowing VBucketCore) -> Void
    ) -> AttemptOutcome {
        document.vBucket.withCore { core in
            let found = core.getReplicaMeta(document.key, hash: document.hash)
            return AttemptOutcome(found) { visit($0, $1, core) }
        }
    }

    /// Reads a document and locks it for `seconds`; the CAS that `visit` gets unlocks it.
    func getAndLock(
        _ document: DocumentAddress,
        seconds: UInt32,
        _ visit: (Item, CAS) -> Void
    ) -> AttemptOutcome {
        let outcome: AttemptOutcome = document.vBucket.withCore { core in
            let locked = core.getAndLock(
                document.key,
                hash: document.hash,
                seconds: seconds,
                turn
            )
            return AttemptOutcome(locked, visit)
        }
        return counted(outcome, .otherCommands)
    }

    /// Sets a document's expiry, in absolute seconds, and reads it.
    func touch(
        _ document: DocumentAddress,
        expiry: UInt32,
        _ visit: (Item, CAS) -> Void
    ) -> AttemptOutcome {
        var (wakesFlusher, wakesStreams) = (false, false)
        var needed: Int?
        let outcome: AttemptOutcome = document.vBucket.withCore { core in
            let touched = core.touch(document.key, hash: document.hash, expiry: expiry, turn)
            wakesFlusher = touched.wakesFlusher
            wakesStreams = touched.wakesStreams
            needed = touched.needed
            return AttemptOutcome(touched.outcome, visit)
        }
        noteChange(document.id, wakesFlusher: wakesFlusher, wakesStreams: wakesStreams)
        return counted(needed.map { shortage($0) } ?? outcome, .otherCommands)
    }
}

// MARK: Writes

extension DocumentOperations {
    /// SET, ADD and REPLACE.
    ///
    /// The request's expiry is absolute: `expiry(ofField:)`.
    @inline(__always)
    func store(_ document: DocumentAddress, _ request: StoreRequest) -> AttemptOutcome {
        guard request.isWithinLimits else { return .refused(.tooLarge) }
        return write(document, .sets, cas: request.cas) { core, turn in core.store(request, turn) }
    }

    /// SET_WITH_META, ADD_WITH_META and DEL_WITH_META.
    ///
    /// Not durable, also if the bucket has a minimum: the other cluster has made the write already.
    func storeWithMeta(_ document: DocumentAddress, _ request: WithMetaRequest) -> AttemptOutcome {
        guard XattrBlob.isWithinLimits(request.value, request.meta.datatype) else {
            return .refused(.tooLarge)
        }
        let outcome = document.vBucket.withCore { $0.storeWithMeta(request, turn) }
        let counter: Statistic = request.meta.isDeleted ? .deletes : .sets
        return finish(outcome, document.id, counter, cas: request.cas)
    }

    func delete(_ document: DocumentAddress, cas: CAS) -> AttemptOutcome {
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
    ) -> AttemptOutcome {
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
    func count(_ document: DocumentAddress, _ request: ArithmeticRequest) -> AttemptOutcome {
        write(document, .sets, cas: request.cas) { core, turn in core.arithmetic(request, turn) }
    }

    /// Unlocks a document before its lock expires.
    func unlock(_ document: DocumentAddress, cas: CAS) -> AttemptOutcome {
        let outcome = document.vBucket.withCore {
            $0.unlock(document.key, hash: document.hash, cas: cas, turn)
        }
        return finish(outcome, document.id, .otherCommands, cas: cas)
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
        _ body: (inout VBucketCore, borrowing ExecutionContext) -> MutationOutcome
    ) -> AttemptOutcome {
        guard isDurable else {
            let outcome = document.vBucket.withCore { body(&$0, turn) }
            return finish(outcome, document.id, counter, cas: cas)
        }
        switch applyDurably(document, { core, turn in body(&core, turn) }) {
        case .refused(let refusal): return .refused(refusal)
        case .applied(let outcome): return finish(outcome, document.id, counter, cas: cas)
        }
    }

    @inline(__always)
    var isDurable: Bool { durability != nil || bucket.minimumDurability != nil }

    /// The result of `applyDurably`.
    enum DurableApplication<Outcome> {
        /// The level cannot be reached: the body was not called.
        case refused(DocumentRefusal)
        case applied(Outcome)
    }

    /// Calls `body` with a turn that prepares, and registers a prepared write with the service in
    /// the same hold of the lock: the service completes writes in the order of their seqnos.
    @inline(never)
    func applyDurably<Outcome: MutationCarrier>(
        _ document: DocumentAddress,
        _ body: (inout VBucketCore, borrowing ExecutionContext) -> Outcome
    ) -> DurableApplication<Outcome> {
        let level = [durability?.level, bucket.minimumDurability].compactMap { $0 }
            .max { $0.rawValue < $1.rawValue }
        guard let level else { preconditionFailure("the caller saw a level") }
        if let refusal = bucket.refusal(of: level, document) { return .refused(refusal) }
        var turn = turn
        turn.durability = level
        let timeout = durability?.timeoutMilliseconds ?? SyncWriteService.timeoutMilliseconds
        let times = bucket.syncWrites.times(withinMilliseconds: timeout)
        let outcome = document.vBucket.withCore { core in
            let outcome = body(&core, turn)
            if case .prepared(let stored) = outcome.mutation {
                bucket.syncWrites.enter(stored, level, times: times, of: core.id)
            }
            return outcome
        }
        return .applied(outcome)
    }

    /// Updates the rest of the bucket after a write.
    @inline(__always)
    func finish(
        _ outcome: MutationOutcome,
        _ id: VBucketID,
        _ counter: Statistic,
        cas: CAS
    ) -> AttemptOutcome {
        switch outcome {
        case .stored(let stored):
            noteChange(id, wakesFlusher: stored.wakesFlusher, wakesStreams: stored.wakesStreams)
            count(counter)
            return .stored(stored)
        case .prepared(let stored):
            noteChange(id, wakesFlusher: stored.wakesFlusher, wakesStreams: stored.wakesStreams)
            count(counter)
            return .prepared(stored)
        case .wouldBlock(let wait): return .waits(wait)
        default: return refused(outcome, counter, cas: cas)
        }
    }

    @inline(never)
    private func refused(
        _ outcome: MutationOutcome,
        _ counter: Statistic,
        cas: CAS
    ) -> AttemptOutcome {
        if case .noRoom(let bytes) = outcome { return counted(shortage(bytes), counter) }
        count(counter)
        let refusal = DocumentRefusal(outcome)
        if refusal == .exists, cas != .none { count(.casMismatches) }
        return .refused(refusal)
    }
}

// MARK: Updates of the rest of the bucket

extension DocumentOperations {
    @inline(__always)
    private func noteChange(_ id: VBucketID, wakesFlusher: Bool, wakesStreams: Bool) {
        if wakesFlusher { bucket.disk?.markDirty(id) }
        if wakesStreams { bucket.traffic.notify(.changed, of: id) }
        if bucket.engine.account.isAboveHighWatermark { bucket.pager.wake() }
    }

    /// The outcome of a write that found no memory: a large one waits until the pager has freed it,
    /// any other is refused while the pager works.
    private func shortage(_ bytes: Int) -> AttemptOutcome {
        if mayWaitForRoom, bucket.pager.needsRoom(bytes) { return .waits(.room(bytes)) }
        bucket.pager.wake()
        count(.temporaryFailures)
        return .refused(.temporaryFailure)
    }

    private func counted(_ outcome: AttemptOutcome, _ counter: Statistic) -> AttemptOutcome {
        if case .waits = outcome { return outcome }
        count(counter)
        return outcome
    }

    @inline(__always)
    func count(_ counter: Statistic) { bucket.counters.count(counter, on: context) }
}

/// An outcome that may contain a mutation's, for the registration of durable writes.
protocol MutationCarrier {
    var mutation: MutationOutcome? { get }
}

extension MutationOutcome: MutationCarrier {
    var mutation: MutationOutcome? { self }
}
