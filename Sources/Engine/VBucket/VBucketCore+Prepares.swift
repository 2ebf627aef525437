internal import Bytes
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
