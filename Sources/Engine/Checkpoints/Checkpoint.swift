internal import Bytes
package import Vocabulary

/// A vBucket's changes in order, for the readers of every change: the flusher, replicas, views.
///
/// Entries are indexed by seqno; each points to the item of its change. An item stores its seqno,
/// so its entry is found without a search, and deduplication is one store. Readers stop only at
/// *closed boundaries*, seqnos across which no change was deduplicated: up to a boundary, a reader
/// has the vBucket's state at the moment of closing. A reader that stopped elsewhere could have
/// neither a version nor its successor.
///
/// - An entry is 0 if a newer version of its key replaced it after the last closed boundary.
/// - An `owned` entry's block belongs to the checkpoint: the table already holds a newer version,
///   or the prepare was completed. Cursors skip such entries, except aborts.
/// - Entries at or before the lowest cursor are removed.
/// - A change that a cursor has to read is kept until the cursor has read it or is dropped.
package struct Checkpoint: ~Copyable {
    /// One change in the order; may be read only under the vBucket's lock.
    package struct Entry {
        let word: UInt64

        /// Readers skip the entry: the change that replaced or completed it lies before the same
        /// boundary.
        var isPassedOver: Bool {
            word & (ChangeChunks.ownedBit | ChangeChunks.abortBit) == ChangeChunks.ownedBit
        }

        package var item: Item {
            guard
                let address = UnsafeMutableRawPointer(
                    bitPattern: UInt(word & ChangeChunks.pointerMask)
                )
            else { preconditionFailure("only entries with an item are read") }
            return Item(address)
        }
    }

    /// An owned block that one or more memory backfills have to read.
    struct Shared {
        let item: Item
        var holders: Int
    }

    var changes: ChangeChunks
    let account: MemoryAccount
    /// The seqno of the newest change.
    package private(set) var highSeqno: Seqno
    /// The last closed boundary: no change at or before it was deduplicated in favour of a later one.
    package internal(set) var closedThrough: Seqno
    /// The flusher has persisted everything up to here; nil without one (ephemeral buckets).
    private(set) var flusher: Seqno?
    var cursors: [Cursor] = []
    var nextCursor: UInt64 = 1
    /// Every reader has read up to this seqno; meaningless without readers.
    private var lowest: Seqno
    /// Changes after this seqno have an entry; meaningless without readers.
    private(set) var retained: Seqno
    private(set) var hasReaders: Bool
    /// Owned blocks that some memory backfill has to read.
    var shared: [UInt64: Shared] = [:]
    /// The start of the snapshot that a replica is receiving; readers can still read the state at
    /// this seqno.
    ///
    /// Later changes may have replaced some of that state. Nil if no reader needs it.
    private(set) var heldBoundary: Seqno?
    /// Changes up to `heldBoundary` that were replaced or completed by later ones.
    private var replacedSince: Set<UInt64> = []
    /// A cursor, or a reader without one, has read everything: it has to be woken at the next change.
    var hasWaitingCursor = false
    /// The senders of streams have to be woken (`takeOwedStreamWake`).
    var owesStreams = false
    /// Bytes of blocks that only this checkpoint holds.
    package private(set) var ownedBytes = 0

    init(highSeqno: Seqno, hasFlusher: Bool, account: MemoryAccount) {
        self.highSeqno = highSeqno
        closedThrough = highSeqno
        flusher = hasFlusher ? highSeqno : nil
        lowest = highSeqno
        retained = highSeqno
        hasReaders = hasFlusher
        changes = ChangeChunks(account: account)
        self.account = account
    }

    /// Every reader has read up to this seqno; the high seqno if there is no reader.
    @inline(__always)
    package var lowestCursor: Seqno { hasReaders ? lowest : highSeqno }

    /// The seqno after which every change can still be read.
    var firstReadable: Seqno { hasReaders ? retained : highSeqno }

    /// Whether the flusher has persisted every change.
    @inline(__always)
    package var isDrained: Bool { (flusher ?? highSeqno) == highSeqno }

    /// The checkpoint's memory in bytes: its chunks and lists, and its owned blocks.
    ///
    /// Visits all entries.
    package var bytes: Int {
        var bytes = changes.bytes + cursors.reduce(0) { $0 + $1.bytes }
        changes.forEach(after: .zero) { word in
            let item = Entry(word: word).item
            guard word & ChangeChunks.ownedBit != 0, shared[item.seqno.value] == nil else { return }
            bytes += SizeClass.footprint(of: item.blockBytes)
        }
        for block in shared.values { bytes += SizeClass.footprint(of: block.item.blockBytes) }
        return bytes
    }

    /// The same as `bytes`, from running counts.
    package var bytesHeld: Int {
        changes.bytes + ownedBytes + cursors.reduce(0) { $0 + $1.bytes }
    }

    // MARK: Writing

    /// Appends the newest change.
    ///
    /// On a replica seqnos may have gaps.
    ///
    /// - Returns: Whether the flusher has to be woken, because it had persisted everything before.
    @inline(__always)
    mutating func append(_ item: Item, seqno: Seqno, arena: Arena) -> Bool {
        append(UInt64(UInt(bitPattern: item.address)), seqno, arena)
    }

    /// Appends an abort and takes ownership of its block; only if the checkpoint has readers.
    mutating func append(abort item: Item, seqno: Seqno, arena: Arena) -> Bool {
        precondition(hasReaders, "an abort is for readers")
        let bytes = SizeClass.footprint(of: item.blockBytes)
        ownedBytes += bytes
        account.addToCheckpoints(bytes)
        let bits = ChangeChunks.ownedBit | ChangeChunks.abortBit
        return append(UInt64(UInt(bitPattern: item.address)) | bits, seqno, arena)
    }

    @inline(__always)
    private mutating func append(_ word: UInt64, _ seqno: Seqno, _ arena: Arena) -> Bool {
        precondition(seqno > highSeqno, "changes come in the order of their seqnos")
        let wasDrained = flusher == highSeqno
        highSeqno = seqno
        if hasWaitingCursor {
            hasWaitingCursor = false
            owesStreams = true
        }
        guard hasReaders else { return false }
        changes.append(word, seqno: seqno, arena: arena)
        return wasDrained
    }

    /// Advances the high seqno without an entry, past changes that a replica does not receive or
    /// that no reader needs.
    mutating func advance(to seqno: Seqno) {
        precondition(seqno > highSeqno, "changes come in the order of their seqnos")
        highSeqno = seqno
        if hasWaitingCursor {
            hasWaitingCursor = false
            owesStreams = true
        }
    }

    /// Removes the entry at `seqno` if no reader needs its version.
    ///
    /// - Returns: Whether the version's block may be overwritten or freed at once.
    @inline(__always)
    mutating func release(_ seqno: Seqno) -> Bool {
        if seqno <= lowestCursor { return true }
        guard seqno > closedThrough else { return false }
        changes.clear(changes.find(seqno))
        return true
    }

    /// Whether `release` would return true.
    @inline(__always)
    func isReleasable(_ seqno: Seqno) -> Bool { seqno <= lowestCursor || seqno > closedThrough }

    /// Transfers the block of the version at `seqno` to the checkpoint, which frees it when the
    /// last reader has read it.
    mutating func own(_ item: Item, seqno: Seqno) {
        var holders = 0
        if !cursors.isEmpty { holders = cursors.count { $0.holds(seqno) } }
        if seqno > retained {
            let entry = changes.find(seqno).entry
            precondition(
                entry.pointee == UInt64(UInt(bitPattern: item.address)),
                "an entry leads to the version with its seqno"
            )
            entry.pointee |= ChangeChunks.ownedBit
            if holders > 0 { holders += 1 }
        } else {
            precondition(holders > 0, "a block without readers must be released")
        }
        if holders > 0 { shared[seqno.value] = Shared(item: item, holders: holders) }
        if let heldBoundary, seqno <= heldBoundary { replacedSince.insert(seqno.value) }
        let bytes = SizeClass.footprint(of: item.blockBytes)
        ownedBytes += bytes
        account.addToCheckpoints(bytes)
    }

    // MARK: The start of a replica's snapshot

    /// Closes a boundary at the high seqno; the state at that seqno stays readable until
    /// `releaseBoundary`.
    mutating func holdBoundary() {
        releaseBoundary()
        guard !cursors.isEmpty else { return }
        closedThrough = highSeqno
        heldBoundary = highSeqno
    }

    mutating func releaseBoundary() {
        heldBoundary = nil
        if !replacedSince.isEmpty { replacedSince = [] }
    }

    /// The changes after `seqno` that a reader of the state at the closed `boundary` has to read:
    /// the newest of each key, prepares that were outstanding at the boundary, and aborts.
    func entries(after seqno: Seqno, through boundary: Seqno) -> [UInt64] {
        var list: [UInt64] = []
        guard boundary == heldBoundary else {
            changes.forEach(after: seqno) { word in
                if !Entry(word: word).isPassedOver { list.append(word) }
            }
            return list
        }
        let replaced = replacedSince
        changes.forEach(after: seqno) { word in
            let entry = Entry(word: word)
            let place = entry.item.seqno
            guard place <= boundary else { return }
            if !entry.isPassedOver || replaced.contains(place.value) { list.append(word) }
        }
        return list
    }

    // MARK: The flusher

    /// Closes a boundary at the high seqno and lists the changes after `cursor`, the newest per
    /// key.
    ///
    /// - Returns: The entries in seqno order, and the boundary.
    package mutating func close(after cursor: Seqno) -> (entries: [Entry], boundary: Seqno) {
        closedThrough = highSeqno
        var entries: [Entry] = []
        entries.reserveCapacity(changes.count)
        changes.forEach(after: cursor) { word in
            // The change that replaced an owned entry lies before this boundary, so it is in the
            // list.
            if word & ChangeChunks.ownedBit == 0 { entries.append(Entry(word: word)) }
        }
        return (entries, closedThrough)
    }

    /// Records that everything up to `boundary` is persisted, and frees what no reader needs.
    mutating func persisted(through boundary: Seqno) {
        precondition(boundary <= closedThrough, "a reader stops at closed boundaries only")
        flusher = boundary
        settle()
    }

    // MARK: Freeing

    /// Recomputes the lowest cursor and frees the entries that every reader has read.
    mutating func settle() {
        var (lowest, retained) = (flusher ?? highSeqno, flusher ?? highSeqno)
        for cursor in cursors {
            lowest = min(lowest, cursor.position)
            retained = min(retained, cursor.retained)
        }
        self.lowest = lowest
        hasReaders = flusher != nil || !cursors.isEmpty
        guard retained > self.retained else { return }
        self.retained = retained
        var passed: [(Seqno, Item)] = []
        changes.removeAll(through: retained) { passed.append(($0, $1)) }
        for (seqno, item) in passed { letGo(item, seqno) }
    }

    /// Records that a reader has read an owned block; frees the block after its last reader.
    mutating func letGo(_ item: Item, _ seqno: Seqno) {
        if !shared.isEmpty, let block = shared[seqno.value] {
            guard block.holders == 1 else {
                shared[seqno.value]?.holders = block.holders - 1
                return
            }
            shared[seqno.value] = nil
        }
        let bytes = item.blockBytes
        let footprint = SizeClass.footprint(of: bytes)
        ownedBytes -= footprint
        account.addToCheckpoints(-footprint)
        account.add(-footprint)
        Arena.free(item.address, bytes)
    }

    /// Removes all entries and cursors when a vBucket is deleted or rebuilt; no reader may hold a
    /// list of its entries.
    mutating func removeAll() {
        releaseBoundary()
        for cursor in cursors { closeCursor(cursor.id) }
        if flusher != nil { flusher = highSeqno }
        closedThrough = highSeqno
        settle()
    }
}
