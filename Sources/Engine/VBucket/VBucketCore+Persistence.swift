package import Bytes
package import Vocabulary

extension VBucketCore {
    /// The changes that the flusher writes in one commit, up to `boundary`.
    package struct Drain {
        package let entries: [Checkpoint.Entry]
        package let boundary: Seqno
        /// Versions on disk that `entries` replace.
        package let superseded: [Seqno]
        /// Completed prepares that may be on disk and have to be removed there.
        package let completedPrepares: [Seqno]
    }

    /// A drain that a replica made at the end of a snapshot, and the copy's state at that moment.
    struct EarlyDrain {
        let drain: Drain
        let state: VBucketState
        let failoverLog: FailoverLog
        let fence: UInt64
        let hasCaughtUp: Bool
    }

    /// Closes a boundary at the high seqno and lists the changes between the persisted seqno and
    /// it.
    ///
    /// The list has documents and outstanding prepares (`Item.level`), no aborts: the disk stores
    /// the present state, so completed prepares are only removed (`completedPrepares`).
    ///
    /// The items stay valid until `persisted` or the next drain: if the table replaces an item, the
    /// checkpoint keeps it.
    package mutating func drain() -> Drain {
        precondition(isPersistent, "only a vBucket with a disk is flushed")
        isDraining = true
        if let early = earlyDrain {
            earlyDrain = nil
            if isCurrent(early) {
                drainedCovered = early.drain.boundary
                return early.drain
            }
            putBack(early.drain)
        }
        drainedCovered = coveredSeqno
        return makeDrain()
    }

    /// Makes the next commit end at the present high seqno, where a replica's snapshot is complete.
    ///
    /// Without this, the flusher may drain inside the next snapshot, and no reader can use that
    /// commit.
    mutating func drainEarly() {
        guard isPersistent, !isDraining, earlyDrain == nil, highSeqno > persistedSeqno else {
            return
        }
        precondition(openSnapshot == nil, "an early drain ends at the end of a snapshot")
        earlyDrain = EarlyDrain(
            drain: makeDrain(),
            state: state,
            failoverLog: failoverLog,
            fence: ownership.fence,
            hasCaughtUp: ownership.hasCaughtUp
        )
    }

    /// Whether the record to store with the drain (`record(through:)`) is the same as when the
    /// drain was made.
    ///
    /// A commit claims the fence and the history of its record for all of its changes. A newer
    /// fence beside older changes would rank the stored copy above copies that have more.
    private func isCurrent(_ early: EarlyDrain) -> Bool {
        early.state == state && early.fence == ownership.fence
            && early.hasCaughtUp == ownership.hasCaughtUp && early.failoverLog == failoverLog
    }

    private mutating func makeDrain() -> Drain {
        let (entries, boundary) = checkpoint.close(after: persistedSeqno)
        // After a failed commit the list has versions that were never written. Their entries are
        // owned by now, so no later commit writes them either.
        let onDisk = superseded.filter { $0 <= persistedSeqno }
        superseded = []
        // List the prepares of a failed commit too: it may have written them nevertheless.
        let completed = completedPrepares
        completedPrepares = []
        drainedThrough = boundary
        return Drain(
            entries: entries,
            boundary: boundary,
            superseded: onDisk,
            completedPrepares: completed
        )
    }

    /// After a failed commit, adds the lists of `drain` to those of the next drain.
    package mutating func undrain(_ drain: Drain) {
        isDraining = false
        putBack(drain)
    }

    private mutating func putBack(_ drain: Drain) {
        superseded = drain.superseded + superseded
        completedPrepares = drain.completedPrepares + completedPrepares
    }

    /// The commit of everything up to `boundary` was synced to disk.
    package mutating func persisted(through boundary: Seqno) {
        precondition(boundary >= persistedSeqno, "what is persisted stays persisted")
        isDraining = false
        persistedSeqno = boundary
        persistedCovered = drainedCovered
        checkpoint.persisted(through: boundary)
        if !waitingReaders.isEmpty { sendWaitingReadersToDisk() }
    }

    /// Whether this version's value can be ejected: it is persisted and every cursor has read it.
    @inline(__always)
    package func isEjectable(_ item: Item) -> Bool {
        isEjectable(item, through: min(checkpoint.lowestCursor, persistedSeqno))
    }

    /// The same, if versions up to `last` are persisted and read.
    @inline(__always)
    func isEjectable(_ item: Item, through last: Seqno) -> Bool {
        item.state.isDisjoint(with: [.valueEjected, .locked])
            && item.seqno <= last && item.valueCount > 0
    }

    /// Ejects a version's value; key and metadata stay in memory.
    ///
    /// - Returns: The bytes that were freed; 0 if the version may not be ejected.
    package mutating func eject(
        _ key: ByteView,
        hash: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> Int {
        guard let place = table.find(key, hash: hash) else { return 0 }
        return eject(place, turn)
    }

    mutating func eject(_ place: HashTable.Place, _ turn: borrowing ExecutionContext) -> Int {
        let old = place.item
        guard isEjectable(old) else { return 0 }
        let (meta, oldBytes) = (old.meta, old.blockBytes)
        let lock = old.state.intersection(.hasLockCAS)
        let valueCount = old.valueCount
        let bytes = oldBytes - valueCount
        guard SizeClass.footprint(of: bytes) < SizeClass.footprint(of: oldBytes) else { return 0 }
        let item = Item(turn.arena.allocate(bytes))
        account.add(SizeClass.footprint(of: bytes))
        item.write(meta, key: old.key, value: .empty, ejectedCount: valueCount)
        item.state.formUnion(lock)
        item.frequency = old.frequency
        table.replace(place, with: item)
        free(old, oldBytes)
        countEjection(of: meta, by: 1)
        return SizeClass.footprint(of: oldBytes) - SizeClass.footprint(of: bytes)
    }

    /// Counts a version in the table whose value leaves memory (1) or returns (-1).
    private mutating func countEjection(of meta: DocumentMeta, by change: Int) {
        if meta.isDeleted { ejected.tombstones += change } else { ejected.documents += change }
    }

    /// Restores the value of version `seqno` in memory, unless the document has changed since.
    ///
    /// - Returns: Whether the value is in memory now.
    @discardableResult
    package mutating func install(
        _ value: ByteView,
        of seqno: Seqno,
        key: ByteView,
        hash: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> Bool {
        guard let place = table.find(key, hash: hash), place.item.seqno == seqno,
            place.item.isEjected
        else { return false }
        let old = place.item
        precondition(old.valueCount == value.count, "a version has one value")
        let oldBytes = old.blockBytes
        let item = Item(turn.arena.allocate(oldBytes + value.count))
        account.add(SizeClass.footprint(of: oldBytes + value.count))
        let frequency = old.frequency
        let lock = old.state.intersection([.locked, .hasLockCAS])
        item.write(old.meta, key: old.key, value: value)
        item.frequency = frequency
        item.state.formUnion(lock)
        table.replace(place, with: item)
        free(old, oldBytes)
        countEjection(of: item.meta, by: -1)
        return true
    }

    // MARK: Warmup

    /// Initializes an empty vBucket from its stored record; requests wait until `endWarmup`.
    package mutating func beginWarmup(_ record: VBucketRecord) {
        adopt(record)
        isLoaded = false
    }

    /// Loads one version from disk, without its value; the newest version of a key is kept.
    ///
    /// - Returns: The seqno of the older of two versions, which is dead on disk; nil if there is
    ///   none.
    package mutating func load(
        _ meta: DocumentMeta,
        key: ByteView,
        valueCount: Int,
        hash: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> Seqno? {
        precondition(!isLoaded, "documents are loaded before requests are served")
        precondition(table.stubCount == 0, "keys are compared until all of them are known")
        let place = table.find(key, hash: hash)
        if let place, place.item.seqno >= meta.seqno {
            return place.item.seqno == meta.seqno ? nil : meta.seqno
        }
        let isEjected = valueCount > 0
        let ejectedCount = isEjected ? valueCount : nil
        let item = makeItem(meta, key: key, value: .empty, ejectedCount: ejectedCount, turn)
        clock.advance(past: meta.cas)
        count(meta)
        visibleHigh.noteLoaded(meta.seqno, snapshotStart: coveredSeqno)
        if isEjected { countEjection(of: meta, by: 1) }
        guard let place else {
            table.insert(item, hash: hash)
            return nil
        }
        let old = place.item
        let dead = old.seqno
        forget(old)
        table.replace(place, with: item)
        free(old, old.blockBytes)
        return dead
    }

    /// Removes the documents loaded so far; warmup starts again.
    package mutating func restartWarmup() {
        precondition(!isLoaded, "only a warmup in progress can restart")
        removeAll()
        visibleHigh = VisibleHigh(loadingThrough: highSeqno)
    }

    /// Ends the warmup, after all documents were loaded: requests are served from now on.
    package mutating func endWarmup() { isLoaded = true }
}
