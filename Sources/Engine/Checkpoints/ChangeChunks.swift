internal import Bytes
internal import Vocabulary

/// The entries of a change order, found by seqno: a queue of blocks of 126 words each.
///
/// Without gaps in the seqnos, a chunk's index is computed by division. Replicas have gaps, and
/// hollow chunks are removed: then a binary search starts at the computed index.
///
/// - Chunks are sorted by first seqno; an entry's place in its chunk gives its seqno; a cleared
///   entry is 0.
/// - A chunk without entries is removed if it is full or not the last.
struct ChangeChunks: ~Copyable {
    static let ownedBit: UInt64 = 1 << 63
    /// The entry is an abort: owned, as the table has no record of it, but not skipped by readers.
    static let abortBit: UInt64 = 1 << 62
    static let pointerMask: UInt64 = (1 << 48) - 1
    /// With its header of two words a chunk is a block of 1 KiB.
    static let entriesPerChunk = 126
    static let chunkBytes = 1_024

    /// Layout: the number of used places and of cleared ones (32 bits each), an unused word, then
    /// the entries.
    struct Chunk {
        let first: UInt64
        let words: UnsafeMutablePointer<UInt64>

        @inline(__always)
        var used: Int { Int(words[0] & 0xffff_ffff) }

        @inline(__always)
        var isFull: Bool { used == ChangeChunks.entriesPerChunk }

        /// Whether all entries are cleared.
        @inline(__always)
        var isHollow: Bool { words[0] >> 32 == words[0] & 0xffff_ffff }

        /// The last seqno with a place in this chunk.
        var last: UInt64 { first + UInt64(used) - 1 }

        @inline(__always)
        func entry(_ place: Int) -> UnsafeMutablePointer<UInt64> { words + 2 + place }
    }

    /// The position of a seqno's entry.
    struct Position {
        let index: Int
        let chunk: Chunk
        let place: Int

        @inline(__always)
        var entry: UnsafeMutablePointer<UInt64> { chunk.entry(place) }
    }

    private(set) var chunks: [Chunk] = []
    /// The number of entries that are not cleared.
    private(set) var count = 0
    let account: MemoryAccount

    init(account: MemoryAccount) {
        self.account = account
    }

    var bytes: Int { chunks.count * ChangeChunks.chunkBytes }

    // MARK: Adding

    /// Appends an entry.
    @inline(__always)
    mutating func append(_ word: UInt64, seqno: Seqno, arena: Arena) {
        count += 1
        if let tail = chunks.last, !tail.isFull, tail.first + UInt64(tail.used) == seqno.value {
            tail.words[0] += 1
            tail.entry(tail.used - 1).pointee = word
            return
        }
        appendApart(word, seqno, in: arena)
    }

    /// Appends an entry after a gap, or in a new chunk.
    private mutating func appendApart(_ word: UInt64, _ seqno: Seqno, in arena: Arena) {
        if let tail = chunks.last {
            precondition(seqno.value > tail.last, "changes come in the order of their seqnos")
            let place = seqno.value - tail.first
            if place < UInt64(ChangeChunks.entriesPerChunk) {
                let gap = Int(place) - tail.used
                for hole in tail.used..<Int(place) { tail.entry(hole).pointee = 0 }
                tail.words[0] += UInt64(gap + 1) | UInt64(gap) << 32
                tail.entry(Int(place)).pointee = word
                return
            }
            if tail.isHollow { remove(at: chunks.count - 1) }
        }
        let block = arena.allocate(ChangeChunks.chunkBytes)
        let chunk = Chunk(
            first: seqno.value,
            words: block.assumingMemoryBound(to: UInt64.self)
        )
        account.addToCheckpoints(ChangeChunks.chunkBytes)
        account.add(ChangeChunks.chunkBytes)
        chunk.words[0] = 1
        chunk.entry(0).pointee = word
        chunks.append(chunk)
    }

    // MARK: Finding

    /// The position of the entry of `seqno`, which must have or have had one.
    @inline(__always)
    func find(_ seqno: Seqno) -> Position {
        guard let first = chunks.first, seqno.value >= first.first else {
            preconditionFailure("a change ahead of a cursor has an entry")
        }
        let (guess, place) = Int(seqno.value - first.first)
            .quotientAndRemainder(dividingBy: ChangeChunks.entriesPerChunk)
        if guess < chunks.count,
            chunks[guess].first == seqno.value - UInt64(place), place < chunks[guess].used
        {
            return Position(index: guess, chunk: chunks[guess], place: place)
        }
        return search(seqno)
    }

    private func search(_ seqno: Seqno) -> Position {
        let index = firstIndex(endingAtOrAfter: seqno)
        guard index < chunks.count, chunks[index].first <= seqno.value else {
            preconditionFailure("a change ahead of a cursor has an entry")
        }
        let place = Int(seqno.value - chunks[index].first)
        return Position(index: index, chunk: chunks[index], place: place)
    }

    private func firstIndex(endingAtOrAfter seqno: Seqno) -> Int {
        var (low, high) = (0, chunks.count)
        while low < high {
            let middle = (low + high) / 2
            if chunks[middle].last < seqno.value { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Visits the entries after `seqno` that are not cleared, in order.
    func forEach(after seqno: Seqno, _ body: (UInt64) -> Void) {
        for chunk in chunks[firstIndex(endingAtOrAfter: Seqno(seqno.value + 1))...] {
            let start = Int(max(seqno.value + 1, chunk.first) - chunk.first)
            for place in start..<chunk.used {
                let word = chunk.entry(place).pointee
                if word != 0 { body(word) }
            }
        }
    }

    // MARK: Removing

    /// Clears an entry.
    @inline(__always)
    mutating func clear(_ position: Position) {
        position.entry.pointee = 0
        position.chunk.words[0] += 1 << 32
        count -= 1
        if position.chunk.isHollow, position.chunk.isFull || position.index < chunks.count - 1 {
            remove(at: position.index)
        }
    }

    /// Removes all entries up to `last`; calls `freeing` for those that are owned.
    ///
    /// Frees every chunk whose seqnos are all up to `last`, even the one of the next entry.
    mutating func removeAll(through last: Seqno, freeing: (Seqno, Item) -> Void) {
        var passed = 0
        for chunk in chunks {
            guard chunk.first <= last.value else { break }
            let end = min(chunk.used, Int(last.value - chunk.first) + 1)
            for place in 0..<end {
                let word = chunk.entry(place).pointee
                guard word != 0 else { continue }
                chunk.entry(place).pointee = 0
                chunk.words[0] += 1 << 32
                count -= 1
                guard word & ChangeChunks.ownedBit != 0 else { continue }
                freeing(Seqno(chunk.first + UInt64(place)), Checkpoint.Entry(word: word).item)
            }
            guard chunk.last <= last.value else { break }
            free(chunk)
            passed += 1
        }
        chunks.removeFirst(passed)
    }

    private mutating func remove(at index: Int) {
        free(chunks[index])
        chunks.remove(at: index)
    }

    private func free(_ chunk: Chunk) {
        account.addToCheckpoints(-ChangeChunks.chunkBytes)
        account.add(-ChangeChunks.chunkBytes)
        Arena.free(UnsafeMutableRawPointer(chunk.words), ChangeChunks.chunkBytes)
    }
}
