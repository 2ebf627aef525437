internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
package import Vocabulary
internal import Wire

/// Operations on single documents for callers without a connection, such as the document browser.
///
/// - An operation is attempted on the lane `nonIO`, again after each wait, until it has an outcome.
/// - An outcome counts only while the lease holds, unless a replica is read. If the lease ended
///   meanwhile, a write may persist or not, so it is reported as a temporary failure, not as
///   refused.
extension DocumentService {
    /// Executes an operation on one document, and calls `done` once, from any lane.
    package func perform(
        _ action: DocumentAction,
        on key: [UInt8],
        inBucket name: String,
        _ done: @escaping @Sendable (DocumentOutcome) -> Void
    ) {
        begin(key, inBucket: name, done) { operations, document in
            switch action {
            case .read: return operations.get(document, DocumentCopy.init).map { .found($0) }
            case .delete(let cas):
                return operations.delete(document, cas: cas).map { .written(DocumentVersion($0)) }
            case .write(let value, let flags, let expiry, let preservesExpiry, let precondition):
                return value.withUnsafeBytes { buffer in
                    let view = ByteView(buffer)
                    let request = StoreRequest(
                        key: document.key,
                        hash: document.hash,
                        value: view,
                        flags: flags,
                        expiry: operations.expiry(ofField: expiry),
                        datatype: operations.datatype(of: view),
                        cas: precondition.cas,
                        mode: precondition == .absent ? .add : .set,
                        preservesExpiry: preservesExpiry
                    )
                    return operations.store(document, request)
                        .map { .written(DocumentVersion($0)) }
                }
            }
        }
    }

    /// Reads, changes and stores a document atomically, and calls `done` once, from any lane.
    ///
    /// A value of more than `Limits.lockedTransformBytesMax` is copied out and transformed without
    /// the vBucket's lock, and stored only if the version is still current. If it is not, and the
    /// caller named no CAS, the update is attempted again, `Limits.updateAttemptsMax` times.
    ///
    /// - Parameters:
    ///   - key: The key; the document need not exist.
    ///   - cas: The version to change; `none` for the current one.
    ///   - name: The bucket.
    ///   - includesDeleted: Whether the transform gets tombstones too.
    ///   - transform: The change, called once for each attempt.
    ///   - done: Gets `written`, `unchanged`, or the reason why neither; `failed` if other writers
    ///     won every race.
    package func update(
        _ key: [UInt8],
        cas: CAS = .none,
        inBucket name: String,
        includesDeleted: Bool = false,
        _ transform: @escaping DocumentTransform,
        _ done: @escaping @Sendable (DocumentOutcome) -> Void
    ) {
        let options = AttemptOptions(includesDeleted: includesDeleted, cas: cas)
        change(key, inBucket: name, options, transform, done)
    }

    /// `update` with the options of a client's request.
    func change(
        _ key: [UInt8],
        inBucket name: String,
        _ options: AttemptOptions,
        _ transform: @escaping DocumentTransform,
        _ done: @escaping @Sendable (DocumentOutcome) -> Void
    ) {
        let attempts = Guarded(0)
        begin(key, inBucket: name, options: options, done) { operations, document in
            let attempt = operations.update(
                document,
                cas: options.cas,
                options.bounds,
                includesDeleted: options.includesDeleted,
                transform
            )
            guard case .done(.deferred(let copy)) = attempt else {
                return attempt.map(DocumentOutcome.init)
            }
            let writer = operations.context.scratch
            writer.removeAll(keepingAtMost: 1 << 20)
            let change: DocumentChange
            if let copy {
                change = copy.value.withUnsafeBytes { buffer in
                    transform(DocumentView(meta: copy.meta, value: ByteView(buffer)), writer)
                }
            } else {
                change = transform(nil, writer)
            }
            let stored = operations.store(
                change,
                writer,
                of: document,
                replacing: copy?.meta,
                options
            )
            guard options.cas == .none, stored.isRaceLost(hadDocument: copy != nil) else {
                return stored.map(DocumentOutcome.init)
            }
            let count = attempts.withLock { attempts in
                attempts += 1
                return attempts
            }
            guard count == Limits.updateAttemptsMax else { return nil }
            // `exists` would report a CAS mismatch, but the caller named no CAS.
            return .done(.failed(DocumentService.everyRaceLost))
        }
    }

    private static let everyRaceLost =
        "Other writers changed the document during each of \(Limits.updateAttemptsMax) attempts. "
        + "Retry."

    /// Copies a document, calls `visit` with the copy without the vBucket's lock, then `done` with the
    /// metadata and no value.
    func read(
        _ key: [UInt8],
        inBucket name: String,
        _ options: AttemptOptions,
        _ visit: @escaping @Sendable (DocumentCopy) -> Void,
        _ done: @escaping @Sendable (DocumentOutcome) -> Void
    ) {
        begin(key, inBucket: name, options: options, done) { operations, document in
            let includesDeleted = options.includesDeleted
            let result =
                options.readsReplica
                ? operations.getReplica(
                    document,
                    includesDeleted: includesDeleted,
                    DocumentCopy.init
                )
                : operations.get(
                    document,
                    includesDeleted: includesDeleted,
                    DocumentCopy.init
                )
            return result.map { copy in
                visit(copy)
                return .found(DocumentCopy(meta: copy.meta, value: []))
            }
        }
    }

    // MARK: Attempts

    /// How an operation is attempted for a client's request.
    struct AttemptOptions: Sendable {
        /// Nil for the vBucket of the key.
        var vBucket: VBucketID?
        /// Reads a replica, which may be stale; needs no lease, as the answer does not promise
        /// the current value.
        var readsReplica = false
        /// Whether a tombstone counts as a document.
        var includesDeleted = false
        /// The version to change; `none` for the current one.
        var cas = CAS.none
        var durability: DocumentOperations.RequestedDurability?
        /// Whether every document, a missing one too, is transformed without the vBucket's lock.
        var isLarge = false
        /// Whether a missing document is made even if `cas` names a version.
        var makesDespiteCAS = false

        /// Which documents are transformed under the vBucket's lock.
        var bounds: TransformBounds {
            var bounds = isLarge ? TransformBounds.none : TransformBounds()
            bounds.makesDespiteCAS = makesDespiteCAS
            return bounds
        }
    }

    /// One attempt of an operation; nil if another version became current: attempt again.
    private typealias Attempt =
        @Sendable (borrowing DocumentOperations, DocumentAddress) ->
        DocumentResult<DocumentOutcome>?

    /// An operation that has no outcome yet.
    private struct Task: Sendable {
        let key: [UInt8]
        let bucket: OpenBucket
        let options: AttemptOptions
        let body: Attempt
        let done: @Sendable (DocumentOutcome) -> Void
        var mayWaitForRoom = true
    }

    private func begin(
        _ key: [UInt8],
        inBucket name: String,
        options: AttemptOptions = AttemptOptions(),
        _ done: @escaping @Sendable (DocumentOutcome) -> Void,
        _ body: @escaping Attempt
    ) {
        lanes.nonIO.lane.post { [self] in
            guard let bucket = bucket(named: name) else { return done(.noBucket) }
            guard !key.isEmpty, key.count <= Limits.keyBytesMax else {
                return done(.refused(.notFound))
            }
            attempt(Task(key: key, bucket: bucket, options: options, body: body, done: done))
        }
    }

    /// One attempt, on the lane `nonIO`.
    private func attempt(_ task: Task) {
        guard mayAnswer(task) else { return task.done(.refused(.notMyVBucket)) }
        task.key.withUnsafeBytes { buffer in
            let key = ByteView(buffer)
            let id =
                task.options.vBucket ?? VBucketID(ofKey: key, count: task.bucket.engine.count)
            // The vBucket that a client names may be none of a bucket that was created meanwhile.
            guard let vBucket = task.bucket.engine[id.number] else {
                return task.done(.refused(.notMyVBucket))
            }
            let context = lanes.nonIO.context
            let operations = DocumentOperations(
                bucket: task.bucket,
                context: context,
                turn: context.turn(environment.time.wallNanoseconds()),
                durability: task.options.durability,
                mayWaitForRoom: task.mayWaitForRoom
            )
            let document = DocumentAddress(key: key, hash: hash(key), id: id, vBucket: vBucket)
            let result = task.body(operations, document)
            // The room that was reserved for the write has been used, or is not needed.
            if !task.mayWaitForRoom { task.bucket.pager.endAdmission() }
            guard let result else { return attemptAgain(task) }
            proceed(task, result, document)
        }
    }

    private func attemptAgain(_ task: Task) {
        lanes.nonIO.lane.post { [self] in attempt(task) }
    }

    private func proceed(
        _ task: Task,
        _ result: DocumentResult<DocumentOutcome>,
        _ document: DocumentAddress
    ) {
        switch result {
        case .done(let outcome): finish(task, outcome)
        case .refused(let refusal): finish(task, .refused(refusal))
        case .prepared(let stored):
            task.bucket.syncWrites.wait(for: stored.seqno, of: document.id) {
                [self] end, _ in
                // Without the lease another node may have committed the write already, under
                // another UUID and seqno.
                guard case .committed(let cas, let seqno, let uuid, _) = end,
                    lease.holds(environment.time)
                else { return task.done(.refused(.durabilityAmbiguous)) }
                task.done(.written(DocumentVersion(cas: cas, uuid: uuid, seqno: seqno)))
            }
        case .wait(let wait):
            task.bucket.resume(
                after: wait,
                of: document.id,
                key: document.key,
                hash: document.hash
            ) { [self] completion in
                switch completion {
                case .failed(.tooBig, _): task.done(.refused(.exceedsMemory))
                case .failed(.temporaryFailure, _) where wait.isRoom:
                    task.bucket.counters.countShared(.temporaryFailures)
                    task.done(.refused(.temporaryFailure))
                case .failed(_, let reason): task.done(.failed(reason))
                case .roomMade:
                    var task = task
                    task.mayWaitForRoom = false
                    attemptAgain(task)
                default: attemptAgain(task)
                }
            }
        }
    }

    private func mayAnswer(_ task: Task) -> Bool {
        task.options.readsReplica || lease.holds(environment.time)
    }

    private func finish(_ task: Task, _ outcome: DocumentOutcome) {
        if mayAnswer(task) { return task.done(outcome) }
        if case .written = outcome { return task.done(.refused(.temporaryFailure)) }
        task.done(.refused(.notMyVBucket))
    }
}

extension DocumentResult {
    /// Whether the version that was transformed without the lock is no longer the current one: it
    /// was replaced or deleted, or a missing document was created.
    fileprivate func isRaceLost(hadDocument: Bool) -> Bool {
        switch self {
        case .refused(.exists): true
        case .refused(.notFound): hadDocument
        default: false
        }
    }
}

extension DocumentOutcome {
    fileprivate init(_ update: Update) {
        switch update {
        case .stored(let stored): self = .written(DocumentVersion(stored))
        case .unchanged: self = .unchanged
        case .deferred: preconditionFailure("the caller transforms a deferred document")
        }
    }
}

extension DocumentCopy {
    fileprivate init(_ item: Item, _ cas: CAS) {
        var meta = item.meta
        meta.cas = cas
        self.init(meta: meta, value: item.value.bytes)
    }
}

extension Precondition<CAS> {
    /// The CAS of a store request; `none` if the precondition names no version.
    fileprivate var cas: CAS {
        if case .version(let cas) = self { cas } else { .none }
    }
}

extension Wait {
    fileprivate var isRoom: Bool {
        if case .room = self { true } else { false }
    }
}

extension DocumentVersion {
    fileprivate init(_ stored: Stored) {
        self.init(cas: stored.cas, uuid: stored.uuid, seqno: stored.seqno)
    }
}

/// Lists of keys, for the document browser.
extension DocumentService {
    /// The keys to list, in the order of their bytes.
    package struct KeyRange: Sendable {
        package var from: [UInt8]?
        package var to: [UInt8]?
        package var inclusiveEnd = true
        package var skip = 0
        package var limit = 10

        package init() {}

        func contains(_ key: ByteView) -> Bool {
            if let from, from.withUnsafeBytes({ key.precedes(ByteView($0)) }) { return false }
            guard let to else { return true }
            return to.withUnsafeBytes { buffer in
                let end = ByteView(buffer)
                return key.precedes(end) || (inclusiveEnd && key.equals(end))
            }
        }
    }

    /// Lists the keys of live documents, and calls `done` from any lane.
    ///
    /// Reads every key of the bucket, from disk for ejected documents: meant for an interactive
    /// page.
    package func list(
        _ range: KeyRange,
        inBucket name: String,
        _ done: @escaping @Sendable (KeyListing) -> Void
    ) {
        lanes.readers[0].lane.post { [self] in
            guard let bucket = bucket(named: name) else { return done(.noBucket) }
            let seconds = UInt32(
                truncatingIfNeeded: environment.time.wallNanoseconds() / 1_000_000_000
            )
            var found = SmallestKeys(count: range.skip + range.limit)
            do throws(StorageError) {
                for vBucket in bucket.engine.all where vBucket.withCore({ $0.state == .active }) {
                    collect(&found, range, of: vBucket, at: seconds)
                    try collectStubs(&found, range, of: vBucket, bucket: bucket, at: seconds)
                }
            } catch {
                environment.trace.error("listing", error.description)
                return done(.failed(error.description))
            }
            done(.keys(Array(found.sorted.dropFirst(range.skip))))
        }
    }

    private func collect(
        _ found: inout SmallestKeys,
        _ range: KeyRange,
        of vBucket: VBucket,
        at seconds: UInt32
    ) {
        vBucket.forEachSlice { core, from in
            core.table.visit(from: from, groupsMax: 64) { item in
                let isDue = item.expiry != 0 && item.expiry <= seconds
                if !item.isDeleted, !isDue, range.contains(item.key) { found.add(item.key) }
            }
        }
    }

    /// Adds keys from disk of which memory has only stubs.
    ///
    /// A document that was restored meanwhile is found twice, which does no harm.
    private func collectStubs(
        _ found: inout SmallestKeys,
        _ range: KeyRange,
        of vBucket: VBucket,
        bucket: OpenBucket,
        at seconds: UInt32
    ) throws(StorageError) {
        let (id, hasStubs) = vBucket.withCore { ($0.id, $0.table.stubCount > 0) }
        guard hasStubs, let disk = bucket.disk else { return }
        var place: Seqno? = .zero
        while let after = place {
            place = try disk.store.lane(of: id).scanMetadata(id, after: after, blocksMax: 64) {
                cursor in
                while cursor.next() {
                    let (meta, key) = (cursor.meta, cursor.key)
                    let isDue = meta.expiry != 0 && meta.expiry <= seconds
                    guard !meta.isDeleted, !isDue, range.contains(key) else { continue }
                    let current = vBucket.withCore { core in
                        core.currentSeqno(of: key, hash: hash(key), asked: meta.seqno)
                    }
                    if current == meta.seqno { found.add(key) }
                }
                return true
            }
        }
    }
}

/// The smallest of many keys, in bounded memory.
private struct SmallestKeys {
    let count: Int
    private var keys: Set<[UInt8]> = []
    /// Larger keys are not among the smallest.
    private var bound: [UInt8]?

    init(count: Int) {
        self.count = count
    }

    mutating func add(_ key: ByteView) {
        if let bound, !bound.withUnsafeBytes({ key.precedes(ByteView($0)) }) { return }
        keys.insert(key.bytes)
        guard keys.count > 2 * count + 64 else { return }
        let smallest = sorted
        keys = Set(smallest)
        bound = smallest.last
    }

    var sorted: [[UInt8]] {
        Array(keys.sorted { $0.lexicographicallyPrecedes($1) }.prefix(count))
    }
}
