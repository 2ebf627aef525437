internal import Bytes
package import Vocabulary

/// One vBucket's copy on a node: documents, change order, history and role.
///
/// - Seqnos are assigned without gaps, CAS strictly increasing, both under the vBucket's lock. A
///   version of another cluster (`storeWithMeta`) keeps its CAS, which may be lower.
/// - The table holds exactly one version of each key: the newest, a tombstone included.
/// - A version is dirty if its seqno is above `persistedSeqno`; there is no dirty flag.
/// - `liveCount + tombstoneCount` is the table's count.
@usableFromInline
package struct VBucketCore: ~Copyable {
    package let id: VBucketID
    package internal(set) var state: VBucketState
    package internal(set) var failoverLog: FailoverLog
    /// The snapshot that a replica is receiving; its end is above the high seqno.
    package internal(set) var openSnapshot: SnapshotRange?
    /// The copy's role in the cluster map: fence, seal, whether it is intact.
    package internal(set) var ownership = Ownership()
    package internal(set) var table: HashTable
    package internal(set) var checkpoint: Checkpoint
    package internal(set) var clock: HybridClock
    /// False during warmup: requests wait until the table has every document's metadata.
    package internal(set) var isLoaded = true {
        didSet { updateWritability() }
    }
    /// Why clients' writes are refused for now.
    package internal(set) var writeHolds: WriteHolds = [] {
        didSet { updateWritability() }
    }
    /// Loaded, without a hold, and no hand-over is in progress.
    package internal(set) var isWritable = true {
        didSet { lookAtPrepares() }
    }
    /// Writable and without prepares: the only check of most writes.
    private(set) var allowsFastWrite = true
    /// Loaded and without inherited prepares: the only check of most reads.
    private(set) var isReadable = true
    /// Durable writes that wait for acknowledgements of other copies; invisible to clients.
    var prepares = PrepareList()
    var visibleHigh = VisibleHigh()
    /// Readers that wait for the end of the snapshot that the replica is receiving.
    var waitingReaders = WaitingReaders()
    /// The next commit's drain, if a replica made it early, at the end of a snapshot.
    var earlyDrain: EarlyDrain?
    /// A drain was listed and its commit has not ended.
    var isDraining = false
    /// The prepares that are outstanding at the end of the snapshot that the replica is receiving;
    /// nil if the producer sent no list.
    var announcedPrepares: Set<Seqno>?
    /// Prepares that an earlier drain listed and that were completed after the last drain.
    var completedPrepares: [Seqno] = []
    /// The last seqno that a drain listed for the disk.
    var drainedThrough = Seqno.zero
    /// The covered seqno at the last drain, and at the last drain that was persisted.
    var (drainedCovered, persistedCovered) = (Seqno.zero, Seqno.zero)
    /// Changes up to this seqno survive a crash.
    package internal(set) var persistedSeqno: Seqno
    /// Tombstones up to this seqno may have been purged, here or on the copy that this copy was
    /// built from.
    package internal(set) var purgeSeqno = Seqno.zero
    /// The highest revision of a purged tombstone; a document that is created again starts above.
    package internal(set) var maxRevision: UInt64 = 0
    /// Versions on disk, or in a commit in progress, that newer ones replaced since the last drain.
    package internal(set) var superseded: [Seqno] = []
    package internal(set) var liveCount = 0
    package internal(set) var tombstoneCount = 0
    var ejected = EjectedCounts()
    var stubExpiry = StubExpiry()
    /// The ends of locks by the keys of their documents, in absolute seconds.
    var lockExpiries: [[UInt8]: UInt32] = [:]
    let account: MemoryAccount
    let isPersistent: Bool
    /// Whole documents may leave memory, not only their values.
    var ejectsWhole: Bool
    /// A read expired a document, and the flusher has not been woken for that change yet.
    private var hasPendingWakeup = false
    private var coin: UInt32

    init(
        id: VBucketID,
        uuid: VBucketUUID,
        table: consuming HashTable,
        account: MemoryAccount,
        isPersistent: Bool,
        ejectsWhole: Bool
    ) {
        self.id = id
        state = .active
        failoverLog = FailoverLog(first: uuid)
        self.table = table
        checkpoint = Checkpoint(highSeqno: .zero, hasFlusher: isPersistent, account: account)
        clock = HybridClock(after: .none)
        persistedSeqno = .zero
        self.account = account
        self.isPersistent = isPersistent
        self.ejectsWhole = ejectsWhole
        coin = UInt32(id.number) &* 2_654_435_761 | 1
    }

    package var highSeqno: Seqno { checkpoint.highSeqno }

    /// Live documents of which the value, or the whole document, is on disk only.
    package var ejectedCount: Int { ejected.documents }

    /// Tombstones whose key is in memory and whose value is on disk only.
    package var ejectedTombstoneCount: Int { ejected.tombstones }

    /// Updates `isWritable` after a change of what it depends on.
    mutating func updateWritability() {
        isWritable = isLoaded && !ownership.isHandingOver && writeHolds.isEmpty
    }

    /// Updates `allowsFastWrite` and `isReadable` after a change of the prepares or the role.
    mutating func lookAtPrepares() {
        allowsFastWrite = isWritable && prepares.isEmpty
        isReadable = isLoaded && prepares.inheritedCount == 0
    }

    /// The seqno that OBSERVE_SEQNO reports as persisted; without a disk, the high seqno.
    package var durableSeqno: Seqno { isPersistent ? persistedSeqno : highSeqno }

    package var uuid: VBucketUUID { failoverLog.current.uuid }

    // MARK: Finding live documents

    /// A document that exists for clients: not deleted, not expired.
    @inline(__always)
    func live(_ place: HashTable.Place?, _ turn: borrowing ExecutionContext) -> Item? {
        guard let item = place?.item, !item.isDeleted, !isDue(item, turn) else { return nil }
        return item
    }

    @inline(__always)
    func isDue(_ item: Item, _ turn: borrowing ExecutionContext) -> Bool {
        let expiry = item.expiry
        return expiry != 0 && expiry <= turn.seconds
    }

    /// Counts a use: the higher the counter, the less probable its increment, so that 8 bits
    /// represent 32 000 uses.
    @inline(__always)
    mutating func touchFrequency(_ item: Item) {
        let frequency = item.frequency
        guard frequency < .max else { return }
        coin ^= coin << 13
        coin ^= coin >> 17
        coin ^= coin << 5
        if (UInt64(coin) * (UInt64(frequency) + 1)) >> 32 == 0 { item.frequency = frequency + 1 }
    }

    // MARK: Making a version

    /// The result of `put`.
    struct Put {
        let cas: CAS
        let seqno: Seqno
        let wakesFlusher: Bool
    }

    /// Makes `meta`, key and value the newest version: the one place where documents change.
    ///
    /// - Parameters:
    ///   - meta: Seqno, CAS and revision are filled in here.
    ///   - key: The key.
    ///   - hash: Its hash.
    ///   - value: The value; if `isFresh` is false, it may lie in the replaced version's block.
    ///   - isFresh: The value lies outside the table, so the old block may be overwritten.
    ///   - place: The key's place in the table; nil if the table does not have the key.
    ///   - turn: The time and the arena of the caller.
    /// - Returns: The version's CAS and seqno, and whether the caller has to wake the flusher.
    mutating func put(
        _ meta: DocumentMeta,
        key: ByteView,
        hash: UInt64,
        value: ByteView,
        isFresh: Bool,
        place: HashTable.Place?,
        _ turn: borrowing ExecutionContext
    ) -> Put {
        var meta = meta
        let old = place?.item
        meta.seqno = Seqno(highSeqno.value + 1)
        meta.cas = clock.next(turn.wallNanoseconds)
        meta.revision = (old?.revision ?? maxRevision) + 1
        if let old { forget(old) }
        count(meta)
        let isFirst = settle(meta, key: key, hash: hash, value, isFresh: isFresh, at: place, turn)
        return Put(cas: meta.cas, seqno: meta.seqno, wakesFlusher: takePendingWakeup() || isFirst)
    }

    /// Stores a version whose seqno, CAS and revision are set, and appends it to the change order.
    ///
    /// The caller maintains the counts.
    ///
    /// - Returns: Whether the caller has to wake the flusher.
    @inline(__always)
    mutating func settle(
        _ meta: DocumentMeta,
        key: ByteView,
        hash: UInt64,
        _ value: ByteView,
        isFresh: Bool,
        at place: HashTable.Place?,
        _ turn: borrowing ExecutionContext
    ) -> Bool {
        let bytes = Item.bytes(for: meta, keyCount: key.count, valueCount: value.count)
        let item: Item
        if let place {
            item = supersede(
                place.item,
                at: place,
                with: meta,
                key: key,
                value: value,
                bytes: bytes,
                isFresh: isFresh,
                turn
            )
            // A write counts as a use, so that documents that are written often stay in memory.
            touchFrequency(item)
        } else {
            item = Item(turn.arena.allocate(bytes))
            account.add(SizeClass.footprint(of: bytes))
            item.write(meta, key: key, value: value)
            table.insert(item, hash: hash)
        }
        return checkpoint.append(item, seqno: meta.seqno, arena: turn.arena)
    }

    /// Defers waking the flusher to the next mutation or to `takePendingWakeup()`.
    mutating func setPendingWakeup(_ owes: Bool) {
        if owes { hasPendingWakeup = true }
    }

    /// Whether the flusher has to be woken for changes that reads made; resets that flag.
    package mutating func takePendingWakeup() -> Bool {
        exchange(&hasPendingWakeup, with: false)
    }

    /// Replaces `old` in the table.
    ///
    /// Reuses its block if no reader of the change order needs it.
    private mutating func supersede(
        _ old: Item,
        at place: HashTable.Place,
        with meta: DocumentMeta,
        key: ByteView,
        value: ByteView,
        bytes: Int,
        isFresh: Bool,
        _ turn: borrowing ExecutionContext
    ) -> Item {
        let oldBytes = old.blockBytes
        let oldSeqno = old.seqno
        if isPersistent, oldSeqno <= checkpoint.closedThrough { superseded.append(oldSeqno) }
        let isReleased = checkpoint.release(oldSeqno)
        if isReleased, isFresh, SizeClass.areInterchangeable(oldBytes, bytes) {
            let frequency = old.frequency
            old.write(meta, key: key, value: value)
            old.frequency = frequency
            return old
        }
        let item = Item(turn.arena.allocate(bytes))
        account.add(SizeClass.footprint(of: bytes))
        item.write(meta, key: key, value: value)
        item.frequency = old.frequency
        if isReleased {
            free(old, oldBytes)
        } else {
            checkpoint.own(old, seqno: oldSeqno)
        }
        table.replace(place, with: item)
        return item
    }

    // MARK: Counting and freeing

    mutating func count(_ meta: DocumentMeta) {
        if meta.isDeleted { tombstoneCount += 1 } else { liveCount += 1 }
    }

    /// Subtracts a version from the counts and removes its lock.
    mutating func forget(_ item: Item) {
        let state = item.state
        if state.contains(.deleted) { tombstoneCount -= 1 } else { liveCount -= 1 }
        if state.contains(.valueEjected) { ejected.forget(state) }
        if state.contains(.locked) { lockExpiries[item.key.bytes] = nil }
    }

    /// Allocates and writes a version; `ejectedCount` is the length of a value that is only on disk.
    func makeItem(
        _ meta: DocumentMeta,
        key: ByteView,
        value: ByteView,
        ejectedCount: Int? = nil,
        _ turn: borrowing ExecutionContext
    ) -> Item {
        let bytes = Item.bytes(
            for: meta,
            keyCount: key.count,
            valueCount: ejectedCount ?? value.count,
            ejected: ejectedCount != nil
        )
        let item = Item(turn.arena.allocate(bytes))
        account.add(SizeClass.footprint(of: bytes))
        item.write(meta, key: key, value: value, ejectedCount: ejectedCount)
        return item
    }

    func free(_ item: Item, _ bytes: Int) {
        account.add(-SizeClass.footprint(of: bytes))
        Arena.free(item.address, bytes)
    }

    /// Frees all documents and changes, before the vBucket is deleted or rebuilt.
    package mutating func removeAll() {
        checkpoint.removeAll()
        removePrepares()
        let account = account
        table.removeAll { item in
            let bytes = item.blockBytes
            account.add(-SizeClass.footprint(of: bytes))
            Arena.free(item.address, bytes)
        }
        liveCount = 0
        tombstoneCount = 0
        ejected = EjectedCounts()
        lockExpiries = [:]
        superseded = []
        stubExpiry.noteEmptied()
    }

    /// Stops serving and frees everything, for a bucket that is deleted.
    package mutating func end() {
        state = .dead
        removeAll()
    }

    // MARK: History

    /// Initializes an empty vBucket from its stored record; its documents are loaded afterwards.
    mutating func adopt(_ record: VBucketRecord) {
        precondition(table.isEmpty && !hasPrepares, "only an empty vBucket adopts a stored record")
        state = record.state
        failoverLog = record.failoverLog
        purgeSeqno = record.purgeSeqno
        maxRevision = record.maxRevision
        clock.advance(past: record.maxCAS)
        persistedSeqno = record.highSeqno
        openSnapshot = record.openSnapshot
        ownership.fence = record.fence
        ownership.branch = record.fence
        restartOrder(at: record.highSeqno)
    }

    /// Discards the change order; the next change has a seqno above `seqno`.
    mutating func restartOrder(at seqno: Seqno) {
        checkpoint.removeAll()
        // Cursor numbers are not reused: a closed cursor's number must not name a later cursor.
        let nextCursor = checkpoint.nextCursor
        checkpoint = Checkpoint(highSeqno: seqno, hasFlusher: isPersistent, account: account)
        checkpoint.nextCursor = nextCursor
        drainedThrough = seqno
        drainedCovered = coveredSeqno
        persistedCovered = coveredSeqno
        visibleHigh = VisibleHigh(loadingThrough: seqno)
        waitingReaders = WaitingReaders()
        earlyDrain = nil
        isDraining = false
    }

    /// Begins a new history: from the new vBucket UUID, clients detect that changes may be missing.
    package mutating func beginHistory(_ uuid: VBucketUUID) {
        failoverLog.begin(uuid, at: highSeqno, fence: ownership.fence)
    }

    /// The record to store in one transaction with the changes up to `seqno`.
    package func record(through seqno: Seqno, casHorizon: UInt64) -> VBucketRecord {
        var record = VBucketRecord(id: id, state: state, failoverLog: failoverLog)
        record.highSeqno = seqno
        // An early drain may end before the open snapshot begins.
        let isInside = openSnapshot.map { $0.start <= seqno && seqno < $0.end } ?? false
        record.snapshotStart = isInside ? openSnapshot?.start ?? seqno : seqno
        record.snapshotEnd = isInside ? openSnapshot?.end ?? seqno : seqno
        // While a snapshot is received, `purgeSeqno` may be above the changes received so far.
        record.purgeSeqno = min(purgeSeqno, seqno)
        record.maxCAS = CAS(max(clock.last.value, casHorizon))
        record.maxRevision = maxRevision
        record.fence = ownership.fence
        record.isIntact = ownership.hasCaughtUp
        return record
    }
}

/// The versions of which memory does not have the value.
struct EjectedCounts {
    /// Live documents of which the value, or the whole document, is on disk only.
    var documents = 0
    /// Tombstones in the table whose value is on disk only; stubs are not among them.
    var tombstones = 0

    /// Subtracts a version in the table whose value is ejected.
    mutating func forget(_ state: Item.State) {
        if state.contains(.deleted) { tombstones -= 1 } else { documents -= 1 }
    }
}
