internal import Bytes
package import Vocabulary

/// A vBucket's changes in order, for whoever has to read them all: the flusher, replicas, views.
///
/// A queue of chunks of entries, indexed by seqno, each a pointer to the item that the change made.
/// An item knows its seqno, so it knows its place here: deduplication is one store. Readers stop
/// only at *closed boundaries*, seqnos across which no change was deduplicated, so what they have
/// up to there is what the vBucket was at that moment (storage.md 2, invariant P1).
///
/// - An entry is 0 once a newer version of its key was made in the open part.
/// - An `owned` entry's block belongs to the checkpoint: the table already holds a newer version.
/// - Everything at or before the lowest cursor is gone from here.
package struct Checkpoint: ~Copyable {
    /// One change as a reader sees it.
    package struct Entry {
        let word: UInt64

        /// The table has a newer version by now.
        package var isOwned: Bool { word & Checkpoint.ownedBit != 0 }

        package var item: Item {
            guard
                let address = UnsafeMutableRawPointer(
                    bitPattern: UInt(word & Checkpoint.pointerMask)
                )
            else { preconditionFailure("only entries with an item are read") }
            return Item(address)
        }
    }

    private static let ownedBit: UInt64 = 1 << 63
    fileprivate static let pointerMask: UInt64 = (1 << 48) - 1
    /// With its header of two words a chunk is a block of 1 KiB.
    private static let entriesPerChunk = 126
    private static let chunkBytes = 1_024

    /// Oldest first; all but the last are full, so a seqno's chunk follows by division.
    ///
    /// Nil where every entry was taken out again: a hot key with a slow reader costs next to nothing.
    private var chunks: [Chunk?] = []
    /// The seqno of the first entry of the first chunk.
    private var firstSeqno: UInt64 = 0
    /// Entries that lead to an item.
    private var entryCount = 0
    private let account: MemoryAccount
    /// The seqno of the newest change.
    package private(set) var highSeqno: Seqno
    /// No change at or before this was deduplicated in favour of one after it.
    package private(set) var closedThrough: Seqno
    /// The flusher has persisted everything up to here; nil without one (ephemeral buckets).
    private var flusher: Seqno?
    /// Bytes of blocks that only this checkpoint holds.
    package private(set) var ownedBytes = 0

    init(highSeqno: Seqno, hasFlusher: Bool, account: MemoryAccount) {
        self.highSeqno = highSeqno
        closedThrough = highSeqno
        flusher = hasFlusher ? highSeqno : nil
        self.account = account
    }

    /// Every reader has read up to here.
    @inline(__always)
    package var lowestCursor: Seqno { flusher ?? highSeqno }

    /// The flusher has nothing to do.
    package var isDrained: Bool { lowestCursor == highSeqno }

    /// What the checkpoint takes: its chunks, and the blocks that only it holds.
    package var bytes: Int {
        var bytes = 0
        for chunk in chunks {
            guard let chunk else { continue }
            bytes += Checkpoint.chunkBytes
            for place in 0..<chunk.used {
                let entry = Entry(word: chunk.entry(place).pointee)
                if entry.isOwned { bytes += SizeClass.footprint(of: entry.item.blockBytes) }
            }
        }
        return bytes
    }

    // MARK: Writing

    /// Takes up the newest change; true where a reader that had read everything must be woken.
    @inline(__always)
    mutating func append(_ item: Item, seqno: Seqno, arena: Arena) -> Bool {
        precondition(
            seqno.value == highSeqno.value + 1,
            "changes come in the order of their seqnos"
        )
        let wasDrained = isDrained
        highSeqno = seqno
        guard flusher != nil else { return false }
        place(for: seqno, arena).pointee = UInt64(UInt(bitPattern: item.address))
        entryCount += 1
        return wasDrained
    }

    /// Whether the version at `seqno` may be overwritten where it lies, or freed at once.
    ///
    /// Nobody will come to read it: its entry is taken out.
    @inline(__always)
    mutating func release(_ seqno: Seqno) -> Bool {
        if seqno <= lowestCursor { return true }
        guard seqno > closedThrough else { return false }
        let (index, chunk, place) = find(seqno)
        clear(chunk, place)
        if chunk.isFull, chunk.isHollow {
            free(chunk)
            chunks[index] = nil
        }
        return true
    }

    /// Whether `release` would say true.
    @inline(__always)
    func isReleasable(_ seqno: Seqno) -> Bool { seqno <= lowestCursor || seqno > closedThrough }

    /// Hands the block of the version at `seqno` over; it lives until the last reader has passed.
    mutating func own(_ item: Item, seqno: Seqno) {
        let (_, chunk, place) = find(seqno)
        precondition(
            chunk.entry(place).pointee == UInt64(UInt(bitPattern: item.address)),
            "an entry leads to the version with its seqno"
        )
        chunk.entry(place).pointee |= Checkpoint.ownedBit
        ownedBytes += SizeClass.footprint(of: item.blockBytes)
    }

    /// Follows an item that was moved to another block.
    mutating func move(_ seqno: Seqno, to item: Item) {
        guard seqno > lowestCursor else { return }
        let (_, chunk, place) = find(seqno)
        chunk.entry(place).pointee = UInt64(UInt(bitPattern: item.address))
    }

    // MARK: Reading

    /// Closes the open part and lists what a reader at `cursor` has to read, newest per key.
    ///
    /// - Returns: The entries in seqno order, and the boundary they end at.
    package mutating func close(after cursor: Seqno) -> (entries: [Entry], boundary: Seqno) {
        closedThrough = highSeqno
        var entries: [Entry] = []
        entries.reserveCapacity(entryCount)
        for chunk in chunks {
            guard let chunk else { continue }
            for place in 0..<chunk.used where chunk.first + UInt64(place) > cursor.value {
                let word = chunk.entry(place).pointee
                // An owned entry's successor lies before this boundary: it is in the list.
                if word != 0, word & Checkpoint.ownedBit == 0 { entries.append(Entry(word: word)) }
            }
        }
        return (entries, closedThrough)
    }

    /// The flusher has persisted everything up to `boundary`: what only it waited for goes.
    mutating func persisted(through boundary: Seqno) {
        precondition(boundary <= closedThrough, "a reader stops at closed boundaries only")
        flusher = boundary
        var passed = 0
        for (index, chunk) in chunks.enumerated() {
            let first = firstSeqno + UInt64(index * Checkpoint.entriesPerChunk)
            let used = chunk?.used ?? Checkpoint.entriesPerChunk
            if let chunk {
                for place in 0..<used where first + UInt64(place) <= boundary.value {
                    freeOwned(chunk, place)
                }
            }
            let isFull = used == Checkpoint.entriesPerChunk
            let isPassed = first + UInt64(used) <= boundary.value + 1
            guard isPassed, isFull || boundary == highSeqno else { break }
            if let chunk { free(chunk) }
            passed += 1
        }
        chunks.removeFirst(passed)
        firstSeqno += UInt64(passed * Checkpoint.entriesPerChunk)
    }

    /// Forgets everything, for a vBucket that goes; nobody may be reading a list of its entries.
    mutating func removeAll() {
        for chunk in chunks {
            guard let chunk else { continue }
            for place in 0..<chunk.used { freeOwned(chunk, place) }
            free(chunk)
        }
        chunks = []
        if flusher != nil { flusher = highSeqno }
        closedThrough = highSeqno
    }

    private mutating func freeOwned(_ chunk: Chunk, _ place: Int) {
        let word = chunk.entry(place).pointee
        guard word != 0 else { return }
        clear(chunk, place)
        guard word & Checkpoint.ownedBit != 0 else { return }
        let item = Entry(word: word).item
        let bytes = item.blockBytes
        ownedBytes -= SizeClass.footprint(of: bytes)
        account.add(-SizeClass.footprint(of: bytes))
        Arena.free(item.address, bytes)
    }

    // MARK: Chunks

    /// Two words, then the entries.
    ///
    /// The seqno of the first entry; how many entries are used, and how many of those lead nowhere
    /// (32 bits each).
    private struct Chunk {
        let words: UnsafeMutablePointer<UInt64>

        @inline(__always)
        var first: UInt64 { words[0] }

        @inline(__always)
        var used: Int { Int(words[1] & 0xffff_ffff) }

        @inline(__always)
        var isFull: Bool { used == Checkpoint.entriesPerChunk }

        /// All entries lead nowhere.
        @inline(__always)
        var isHollow: Bool { words[1] >> 32 == words[1] & 0xffff_ffff }

        @inline(__always)
        func entry(_ place: Int) -> UnsafeMutablePointer<UInt64> { words + 2 + place }
    }

    @inline(__always)
    private mutating func place(for seqno: Seqno, _ arena: Arena) -> UnsafeMutablePointer<UInt64> {
        if let last = chunks.last, let tail = last, !tail.isFull {
            precondition(tail.first + UInt64(tail.used) == seqno.value, "chunks have no gaps")
            tail.words[1] += 1
            return tail.entry(tail.used - 1)
        }
        return addChunk(seqno, arena).entry(0)
    }

    private mutating func addChunk(_ seqno: Seqno, _ arena: Arena) -> Chunk {
        if chunks.isEmpty { firstSeqno = seqno.value }
        let block = arena.allocate(Checkpoint.chunkBytes)
        let chunk = Chunk(words: block.assumingMemoryBound(to: UInt64.self))
        account.add(Checkpoint.chunkBytes)
        chunk.words[0] = seqno.value
        chunk.words[1] = 1
        chunks.append(chunk)
        return chunk
    }

    @inline(__always)
    private func find(_ seqno: Seqno) -> (index: Int, chunk: Chunk, place: Int) {
        let offset = Int(seqno.value - firstSeqno)
        let (index, place) = offset.quotientAndRemainder(dividingBy: Checkpoint.entriesPerChunk)
        guard let chunk = chunks[index], place < chunk.used else {
            preconditionFailure("a change ahead of a cursor has an entry")
        }
        return (index, chunk, place)
    }

    @inline(__always)
    private mutating func clear(_ chunk: Chunk, _ place: Int) {
        chunk.entry(place).pointee = 0
        chunk.words[1] += 1 << 32
        entryCount -= 1
    }

    private func free(_ chunk: Chunk) {
        account.add(-Checkpoint.chunkBytes)
        Arena.free(UnsafeMutableRawPointer(chunk.words), Checkpoint.chunkBytes)
    }
}
