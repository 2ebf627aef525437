package import Bytes
package import Vocabulary

/// A write that was prepared and not yet completed.
package struct OutstandingPrepare: Hashable, Sendable {
    package let seqno: Seqno
    package let level: DurabilityLevel
    /// Another copy made the prepare, or this copy before a restart: it may have been committed.
    package let isInherited: Bool

    package init(seqno: Seqno, level: DurabilityLevel, isInherited: Bool) {
        self.seqno = seqno
        self.level = level
        self.isInherited = isInherited
    }
}

/// Durable writes on the active copy: prepare, then commit or abort.
///
/// - A prepare has its CAS and a seqno of its own. It is in the change order and among the
///   prepares, not in the table, so it is invisible.
/// - A commit is an ordinary version with the prepare's CAS; an abort is an entry of the change
///   order and nothing else.
/// - Any change of a key completes the key's prepare, on every copy: there is no commit message.
extension VBucketCore {
    package var hasPrepares: Bool { !prepares.isEmpty }

    /// The prepares that are neither committed nor aborted, in the order of their seqnos.
    package var outstandingPrepares: [OutstandingPrepare] {
        prepares.list.map { prepare in
            guard let level = prepare.item.level else {
                preconditionFailure("a prepare has a level")
            }
            return OutstandingPrepare(
                seqno: prepare.seqno,
                level: level,
                isInherited: prepare.isInherited
            )
        }
    }

    /// Visits the prepares in the order of their seqnos.
    package func forEachPrepare(_ body: (Item) -> Void) {
        for prepare in prepares.list { body(prepare.item) }
    }

    /// The bytes of the prepares' blocks, all counted in the account.
    package var prepareBytes: Int {
        prepares.list.reduce(0) { $0 + SizeClass.footprint(of: $1.item.blockBytes) }
    }

    // MARK: Admission

    /// Why a write of `key` has to wait or is refused, if `allowsFastWrite` is false; nil if it is
    /// allowed.
    @inline(never)
    func writeObstacle(_ key: ByteView, _ hash: UInt64) -> DocumentResult<Never>? {
        guard writeHolds.isEmpty else { return .refused(.temporaryFailure) }
        guard isWritable else { return .wait(isLoaded ? .handOver : .warmup) }
        return prepares.find(key, hash).map {
            .refused($0.isInherited ? .writeRecommitting : .writeInProgress)
        }
    }

    /// Why a read has to wait or is refused.
    ///
    /// A prepare that this copy made is no reason: until its commit, the previous version is read.
    @inline(never)
    func readObstacle(_ key: ByteView, _ hash: UInt64) -> ReadResult? {
        guard isLoaded else { return .wait(.warmup) }
        guard let prepare = prepares.find(key, hash), prepare.isInherited else { return nil }
        return .refused(.writeRecommitting)
    }

    /// Whether a document's key has a prepare: then it neither expires nor is ejected as a whole.
    @inline(__always)
    func isPrepared(_ item: Item) -> Bool {
        !prepares.isEmpty && prepares.find(item.key, table.hash(item.key)) != nil
    }

    // MARK: Prepare

    /// Prepares a version that stays invisible until its commit; otherwise as `put`.
    mutating func prepare(
        _ meta: DocumentMeta,
        _ level: DurabilityLevel,
        key: ByteView,
        hash: UInt64,
        value: ByteView,
        place: HashTable.Place?,
        _ turn: borrowing ExecutionContext
    ) -> Put {
        var meta = meta
        meta.seqno = Seqno(highSeqno.value + 1)
        meta.cas = clock.next(turn.wallNanoseconds)
        meta.revision = (place?.item.revision ?? maxRevision) + 1
        let item = makePrepare(
            meta,
            level,
            key: key,
            hash: hash,
            value: value,
            isInherited: false,
            turn: turn
        )
        noteInvisible(at: meta.seqno)
        let isFirst = checkpoint.append(item, seqno: meta.seqno, arena: turn.arena)
        return Put(cas: meta.cas, seqno: meta.seqno, wakesFlusher: takePendingWakeup() || isFirst)
    }

    /// Allocates a prepare and adds it to `prepares`; the caller appends it to the change order.
    mutating func makePrepare(
        _ meta: DocumentMeta,
        _ level: DurabilityLevel,
        key: ByteView,
        hash: UInt64,
        value: ByteView,
        isInherited: Bool,
        turn: borrowing ExecutionContext
    ) -> Item {
        let item = makeItem(meta, key: key, value: value, turn)
        item.becomePrepare(level)
        prepares.insert(item, hash: hash, isInherited: isInherited)
        lookAtPrepares()
        return item
    }

    // MARK: Commit and abort

    /// Makes a prepare the newest version of its key, with a seqno of its own.
    ///
    /// - Parameters:
    ///   - prepare: The prepare's seqno.
    ///   - fence: The fence of the map that the decision is based on; a decision under another
    ///     fence is ignored.
    ///   - turn: The time and the arena of the caller.
    /// - Returns: `refused(.notFound)` if there is no such prepare, or this copy does not decide
    ///   about it under that fence; `wait` if the call has to be repeated.
    package mutating func commit(
        _ prepare: Seqno,
        fence: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> WriteResult {
        guard feeds(fence), let found = prepares.find(prepare) else { return .refused(.notFound) }
        guard isLoaded else { return .wait(.warmup) }
        let (item, hash) = (found.item, found.hash)
        let place = table.find(item.key, hash: hash)
        if let wait = missing(place, hash, tombstones: true) { return .wait(wait) }
        var meta = item.meta
        meta.seqno = Seqno(highSeqno.value + 1)
        meta.revision = (place?.item.revision ?? maxRevision) + 1
        if let old = place?.item { forget(old) }
        count(meta)
        let isFirst = settle(
            meta,
            key: item.key,
            hash: hash,
            item.value,
            isFresh: true,
            at: place,
            turn
        )
        complete(found)
        let wakes = takePendingWakeup() || isFirst
        return .done(stored(Put(cas: meta.cas, seqno: meta.seqno, wakesFlusher: wakes)))
    }

    /// Aborts a prepare: its version never becomes visible; the result has its CAS, otherwise as
    /// `commit`.
    package mutating func abort(
        _ prepare: Seqno,
        fence: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> WriteResult {
        guard feeds(fence), let found = prepares.find(prepare) else { return .refused(.notFound) }
        guard isLoaded else { return .wait(.warmup) }
        let (cas, seqno) = (found.item.cas, Seqno(highSeqno.value + 1))
        let isFirst = appendAbort(of: prepare, at: seqno, found.item.key, turn)
        complete(found)
        let wakes = takePendingWakeup() || isFirst
        return .done(stored(Put(cas: cas, seqno: seqno, wakesFlusher: wakes)))
    }

    /// Appends an abort to the change order, if the change order has readers.
    mutating func appendAbort(
        of prepare: Seqno,
        at seqno: Seqno,
        _ key: ByteView,
        _ turn: borrowing ExecutionContext
    ) -> Bool {
        noteInvisible(at: seqno)
        guard checkpoint.hasReaders else {
            checkpoint.advance(to: seqno)
            return false
        }
        let meta = DocumentMeta(seqno: seqno, cas: CAS(prepare.value))
        let item = makeItem(meta, key: key, value: .empty, turn)
        item.state.insert(.aborted)
        return checkpoint.append(abort: item, seqno: seqno, arena: turn.arena)
    }

    /// Removes a prepare, after the change that completes it was made.
    mutating func complete(_ prepare: PrepareList.Prepare) {
        let (item, seqno) = (prepare.item, prepare.seqno)
        let bytes = item.blockBytes
        prepares.remove(seqno)
        lookAtPrepares()
        if isPersistent, seqno <= drainedThrough { completedPrepares.append(seqno) }
        if checkpoint.release(seqno) {
            free(item, bytes)
        } else {
            checkpoint.own(item, seqno: seqno)
        }
    }

    /// Marks all prepares as inherited: this copy has to complete prepares that it did not make.
    mutating func inheritPrepares() {
        prepares.inheritAll()
        lookAtPrepares()
    }

    /// Frees all prepares, before the vBucket is deleted or rebuilt.
    ///
    /// The change order must be empty.
    mutating func removePrepares() {
        for prepare in prepares.list { free(prepare.item, prepare.item.blockBytes) }
        prepares.removeAll()
        announcedPrepares = nil
        completedPrepares = []
        lookAtPrepares()
    }
}

/// Durable writes on a replica, or on a copy that is loaded from disk.
///
/// - The copy decides nothing: it keeps a prepare until a change of the key, an abort, or a list of
///   outstanding prepares without it completes it.
/// - A snapshot from the active copy's table or disk contains no aborts, so it begins with the list
///   of the prepares that are outstanding at its end.
extension VBucketCore {
    /// Applies a prepare of the active copy.
    package mutating func applyPrepare(
        _ meta: DocumentMeta,
        level: DurabilityLevel,
        key: ByteView,
        hash: UInt64,
        value: ByteView,
        _ turn: borrowing ExecutionContext
    ) -> ApplyOutcome {
        if let obstacle = obstacle(at: meta.seqno) { return obstacle }
        guard account.admitsCopy(value.count) else { return .temporaryFailure }
        // An earlier prepare of the key was aborted: its commit would have preceded this prepare.
        completePrepare(of: key, hash)
        clock.advance(past: meta.cas)
        let item = makePrepare(
            meta,
            level,
            key: key,
            hash: hash,
            value: value,
            isInherited: false,
            turn: turn
        )
        noteInvisible(at: meta.seqno)
        let isFirst = checkpoint.append(item, seqno: meta.seqno, arena: turn.arena)
        endSnapshotIfWhole()
        return .applied(wakesFlusher: takePendingWakeup() || isFirst)
    }

    /// Applies an abort of the active copy; `prepare` may be unknown to this copy.
    package mutating func applyAbort(
        at seqno: Seqno,
        of prepare: Seqno,
        key: ByteView,
        hash: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> ApplyOutcome {
        if let obstacle = obstacle(at: seqno) { return obstacle }
        let isFirst = appendAbort(of: prepare, at: seqno, key, turn)
        completePrepare(of: key, hash)
        endSnapshotIfWhole()
        return .applied(wakesFlusher: takePendingWakeup() || isFirst)
    }

    private func obstacle(at seqno: Seqno) -> ApplyOutcome? {
        guard case .replica = state else { return .refused }
        guard isLoaded else { return .wouldBlock(.warmup) }
        guard seqno > highSeqno else { return .known }
        guard let snapshot = openSnapshot, seqno <= snapshot.end else { return .refused }
        return nil
    }

    /// Stores the list of prepares that are outstanding at the open snapshot's end.
    ///
    /// Other prepares are removed when the snapshot is complete, not before: until then this copy
    /// counts with its state at the snapshot's start, and has to keep what it acknowledged there.
    ///
    /// - Returns: False if no snapshot is open.
    package mutating func announceOutstanding(_ seqnos: some Sequence<Seqno>) -> Bool {
        guard case .replica = state, openSnapshot != nil else { return false }
        announcedPrepares = Set(seqnos)
        return true
    }

    /// Completes the prepares that are not in the list of the snapshot that has ended.
    mutating func forgetUnannounced() {
        guard let announced = announcedPrepares else { return }
        announcedPrepares = nil
        for prepare in prepares.list where !announced.contains(prepare.seqno) { complete(prepare) }
    }

    /// Discards the open snapshot and its list of prepares, because its remaining changes will not
    /// be received; purges above the high seqno concern only those changes.
    mutating func endSnapshotEarly() {
        openSnapshot = nil
        announcedPrepares = nil
        purgeSeqno = min(purgeSeqno, highSeqno)
    }

    /// Completes the prepare of a changed key, if it has one.
    mutating func completePrepare(of key: ByteView, _ hash: UInt64) {
        if let prepare = prepares.find(key, hash) { complete(prepare) }
    }

    /// Loads a prepare from disk, after all documents; prepares are loaded in the order of seqnos.
    ///
    /// The prepare may have been committed before the restart, so its key is hidden until the prepare
    /// is completed. A prepare that a later change of its key has completed is not loaded, even if it
    /// is on disk.
    package mutating func loadPrepare(
        _ meta: DocumentMeta,
        level: DurabilityLevel,
        key: ByteView,
        hash: UInt64,
        value: ByteView,
        _ turn: borrowing ExecutionContext
    ) {
        precondition(!isLoaded, "documents are loaded before requests are served")
        if let newest = table.find(key, hash: hash)?.item.seqno, newest > meta.seqno {
            return completedPrepares.append(meta.seqno)
        }
        completePrepare(of: key, hash)
        clock.advance(past: meta.cas)
        _ = makePrepare(
            meta,
            level,
            key: key,
            hash: hash,
            value: value,
            isInherited: true,
            turn: turn
        )
    }
}
