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

    /// Chunk addresses, oldest first; chunk i of `chunks` starts at its `base` seqno.
    private var chunks: [UnsafeMutablePointer<UInt64>] = []
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
        let place = place(for: seqno, arena)
        place.pointee = UInt64(UInt(bitPattern: item.address))
        return wasDrained
    }

    /// Whether the version at `seqno` may be overwritten where it lies, or freed at once: nobody
    /// will come to read it. Takes its entry out.
    @inline(__always)
    mutating func release(_ seqno: Seqno) -> Bool {
        if seqno <= lowestCursor { return true }
        guard seqno > closedThrough else { return false }
        entry(seqno).pointee = 0
        return true
    }

    /// Whether `release` would say true.
    @inline(__always)
    func isReleasable(_ seqno: Seqno) -> Bool { seqno <= lowestCursor || seqno > closedThrough }

    /// Hands the block of the version at `seqno` over; it lives until the last reader has passed.
    mutating func own(_ item: Item, seqno: Seqno) {
        let place = entry(seqno)
        precondition(
            place.pointee == UInt64(UInt(bitPattern: item.address)),
            "an entry leads to the version with its seqno"
        )
        place.pointee |= Checkpoint.ownedBit
        ownedBytes += SizeClass.footprint(of: item.blockBytes)
    }

    /// Follows an item that was moved to another block.
    mutating func move(_ seqno: Seqno, to item: Item) {
        guard seqno > lowestCursor else { return }
        entry(seqno).pointee = UInt64(UInt(bitPattern: item.address))
    }

    // MARK: Reading

    /// Closes the open part and lists what a reader at `cursor` has to read, newest per key.
    ///
    /// - Returns: The entries in seqno order, and the boundary they end at.
    package mutating func close(after cursor: Seqno) -> (entries: [Entry], boundary: Seqno) {
        closedThrough = highSeqno
        var entries: [Entry] = []
        entries.reserveCapacity(Int(highSeqno.value - cursor.value))
        for chunk in chunks {
            let base = chunk[0]
            for offset in 0..<Int(chunk[1]) where base + UInt64(offset) > cursor.value {
                let word = chunk[2 + offset]
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
        while let chunk = chunks.first {
            let base = chunk[0]
            let used = Int(chunk[1])
            for offset in 0..<used where base + UInt64(offset) <= boundary.value {
                freeOwned(chunk + 2 + offset)
            }
            let isFull = used == Checkpoint.entriesPerChunk
            let isPassed = base + UInt64(used) <= boundary.value + 1
            guard isPassed, isFull || boundary == highSeqno else { break }
            free(chunk)
            chunks.removeFirst()
        }
    }

    /// Forgets everything, for a vBucket that goes.
    mutating func removeAll() {
        for chunk in chunks {
            for offset in 0..<Int(chunk[1]) { freeOwned(chunk + 2 + offset) }
            free(chunk)
        }
        chunks = []
        if flusher != nil { flusher = highSeqno }
        closedThrough = highSeqno
    }

    private mutating func freeOwned(_ place: UnsafeMutablePointer<UInt64>) {
        let word = place.pointee
        place.pointee = 0
        guard word & Checkpoint.ownedBit != 0 else { return }
        let item = Entry(word: word).item
        let bytes = item.blockBytes
        ownedBytes -= SizeClass.footprint(of: bytes)
        account.add(-SizeClass.footprint(of: bytes))
        Arena.free(item.address, bytes)
    }

    // MARK: Chunks

    @inline(__always)
    private mutating func place(for seqno: Seqno, _ arena: Arena) -> UnsafeMutablePointer<UInt64> {
        if let tail = chunks.last, tail[1] < Checkpoint.entriesPerChunk,
            tail[0] + tail[1] == seqno.value
        {
            tail[1] += 1
            return tail + 1 + Int(tail[1])
        }
        let chunk = arena.allocate(Checkpoint.chunkBytes).assumingMemoryBound(to: UInt64.self)
        account.add(Checkpoint.chunkBytes)
        chunk[0] = seqno.value
        chunk[1] = 1
        chunks.append(chunk)
        return chunk + 2
    }

    @inline(__always)
    private func entry(_ seqno: Seqno) -> UnsafeMutablePointer<UInt64> {
        guard let first = chunks.first else {
            preconditionFailure("a change ahead of a cursor has an entry")
        }
        // Every chunk but the last is full, and seqnos are dense, so the chunk follows by division.
        let offset = Int(seqno.value - first[0])
        let chunk = chunks[offset / Checkpoint.entriesPerChunk]
        let place = offset % Checkpoint.entriesPerChunk
        precondition(place < Int(chunk[1]), "a change ahead of a cursor has an entry")
        return chunk + 2 + place
    }

    private func free(_ chunk: UnsafeMutablePointer<UInt64>) {
        account.add(-Checkpoint.chunkBytes)
        Arena.free(UnsafeMutableRawPointer(chunk), Checkpoint.chunkBytes)
    }
}
