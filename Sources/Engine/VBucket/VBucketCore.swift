internal import Bytes
package import Vocabulary

/// What a node knows of one vBucket, and what is always true of it.
///
/// - Seqnos are handed out without gaps, CAS strictly increasing, both under the vBucket's lock.
/// - The table holds exactly one version of each key: the newest, a tombstone included.
/// - A version is dirty while its seqno is above `persistedSeqno`; nothing else says so.
/// - `liveCount + tombstoneCount` is the table's count.
@usableFromInline
package struct VBucketCore: ~Copyable {
    package let id: VBucketID
    package internal(set) var state: VBucketState
    package internal(set) var failoverLog: FailoverLog
    /// The snapshot that is being received, on a replica; it ends behind the high seqno.
    package internal(set) var openSnapshot: SnapshotRange?
    /// What the map made of this copy, and what it may count as.
    package internal(set) var ownership = Ownership()
    package internal(set) var table: HashTable
    package internal(set) var checkpoint: Checkpoint
    package internal(set) var clock: HybridClock
    /// Every document's metadata is in the table; until then requests wait.
    package internal(set) var isLoaded = true {
        didSet { isWritable = isLoaded && !ownership.isHandingOver }
    }
    /// Loaded, and not about to be handed over.
    package internal(set) var isWritable = true {
        didSet { lookAtPrepares() }
    }
    /// Writable and without prepares: one look for every write.
    private(set) var allowsFastWrite = true
    /// Loaded and without inherited prepares: one look for every read.
    private(set) var isReadable = true
    /// Writes that wait for other copies; invisible.
    var prepares = Prepares()
    var visibleHigh = VisibleHigh()
    /// Readers that wait for the snapshot that is being received to end.
    var waitingReaders = WaitingReaders()
    /// A drain for the next commit that was made where a replica's snapshot ended.
    var earlyDrain: EarlyDrain?
    /// A drain is on its way to disk.
    var isDraining = false
    /// Of those in the snapshot that is being received: all that are outstanding at its end.
    var announcedPrepares: Set<Seqno>?
    /// Prepares that a drain has listed and that were completed since the last one.
    var completedPrepares: [Seqno] = []
    /// What lies behind this was never listed for the disk.
    var drainedThrough = Seqno.zero
    /// What was covered when the last drain was made, and when the last one that is on disk was.
    var (drainedCovered, persistedCovered) = (Seqno.zero, Seqno.zero)
    /// Changes up to here survive a crash; equal to the high seqno where there is no disk.
    package internal(set) var persistedSeqno: Seqno
    /// Tombstones up to here may be gone, or were gone where this copy was built from.
    package internal(set) var purgeSeqno = Seqno.zero
    /// The highest revision of what was purged: a document that comes back starts above it.
    package internal(set) var maxRevision: UInt64 = 0
    /// Versions on disk, or on their way there, that a newer one replaced since the last drain.
    package internal(set) var superseded: [Seqno] = []
    package internal(set) var liveCount = 0
    package internal(set) var tombstoneCount = 0
    /// Live documents whose value, or all of which, is on disk only.
    package internal(set) var ejectedCount = 0
    var stubExpiry = StubExpiry()
    /// Until when (absolute seconds) locked documents stay locked, by key.
    var lockExpiries: [[UInt8]: UInt32] = [:]
    let account: MemoryAccount
    let isPersistent: Bool
    /// Whole documents may leave memory, not only their values.
    var ejectsWhole: Bool
    /// A read turned an expired document into a change that the flusher was not told of yet.
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

    /// Follows what became of the prepares.
    mutating func lookAtPrepares() {
        allowsFastWrite = isWritable && prepares.isEmpty
        isReadable = isLoaded && prepares.inheritedCount == 0
    }

    /// What OBSERVE_SEQNO tells: memory is all there is where there is no disk.
    package var durableSeqno: Seqno { isPersistent ? persistedSeqno : highSeqno }

    package var uuid: VBucketUUID { failoverLog.current.uuid }

    // MARK: Finding what is really there

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

    /// Counts a use: the higher the counter, the rarer it grows, so 8 bits reach 32 000 uses.
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

    /// What `put` found and made.
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
    ///   - value: The value; may lie in the version that is replaced where `isFresh` is false.
    ///   - isFresh: The value lies outside the table, so the old block may be written over.
    ///   - place: Where the table has the key now.
    ///   - turn: The caller's.
    /// - Returns: What the version got, and whether the flusher has to be told.
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

    /// Makes a version with everything given the newest of its key and the newest change.
    ///
    /// Counts are the caller's. Says whether the flusher has to be told.
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
            item = supersede(place.item, at: place, with: meta, key, value, bytes, isFresh, turn)
            // A change is a use as well: what is written all the time had better stay in memory.
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

    /// Whether reads made changes that the flusher has to be told of; says so once.
    package mutating func takePendingWakeup() -> Bool {
        defer { hasPendingWakeup = false }
        return hasPendingWakeup
    }

    /// Puts a version in the place of `old`, in its own block if that has no other reader.
    private mutating func supersede(
        _ old: Item,
        at place: HashTable.Place,
        with meta: DocumentMeta,
        _ key: ByteView,
        _ value: ByteView,
        _ bytes: Int,
        _ isFresh: Bool,
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

    /// Takes a version out of the counts, and its lock with it.
    mutating func forget(_ item: Item) {
        let state = item.state
        if state.contains(.deleted) { tombstoneCount -= 1 } else { liveCount -= 1 }
        if state.contains(.valueEjected) { ejectedCount -= 1 }
        if state.contains(.locked) { lockExpiries[item.key.bytes] = nil }
    }

    func free(_ item: Item, _ bytes: Int) {
        account.add(-SizeClass.footprint(of: bytes))
        Arena.free(item.address, bytes)
    }

    /// Frees all documents and changes, for a vBucket that goes.
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
        ejectedCount = 0
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

    /// Makes this the copy that `record` describes; its documents are loaded afterwards.
    mutating func adopt(_ record: VBucketRecord) {
        precondition(table.isEmpty && !hasPrepares, "only an empty vBucket can become another")
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

    /// Forgets the change order; the next change comes behind `seqno`.
    mutating func restartOrder(at seqno: Seqno) {
        checkpoint.removeAll()
        // A closed reader must not be mistaken for another one.
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

    /// Begins a new history: clients that know the old one learn that changes may be missing.
    package mutating func beginHistory(_ uuid: VBucketUUID) {
        failoverLog.begin(uuid, at: highSeqno, fence: ownership.fence)
    }

    /// What is to be stored of this vBucket together with its changes up to `seqno`.
    package func record(through seqno: Seqno, casHorizon: UInt64) -> VBucketRecord {
        var record = VBucketRecord(id: id, state: state, failoverLog: failoverLog)
        record.highSeqno = seqno
        // A drain that was made early may end before the snapshot begins.
        let isInside = openSnapshot.map { $0.start <= seqno && seqno < $0.end } ?? false
        record.snapshotStart = isInside ? openSnapshot?.start ?? seqno : seqno
        record.snapshotEnd = isInside ? openSnapshot?.end ?? seqno : seqno
        // Inside a snapshot it is known of what has yet to come.
        record.purgeSeqno = min(purgeSeqno, seqno)
        record.maxCAS = CAS(max(clock.last.value, casHorizon))
        record.maxRevision = maxRevision
        record.fence = ownership.fence
        record.isIntact = ownership.hasCaughtUp
        return record
    }
}
