/// The lane's in-memory map: which block holds which seqnos of which vBucket.
///
/// The seqno is the address. Items store no disk location; this table does, with 24
/// bytes for about thirty documents. So compaction moves documents without touching items.
///
/// - A vBucket's runs are sorted by first seqno and never overlap.
/// - Every run's block is in `blocks`; a block without runs has only dead documents.
/// - A version is marked dead only after a newer version of its key is on disk. Commit and warmup
///   mark it.
struct LaneDirectory {
    /// A vBucket's state in this lane.
    struct Entry {
        var runs: [DirectoryRun] = []
        /// All seqnos up to this one are committed.
        var high: UInt64 = 0
        /// Runs in blocks before this one belong to a dropped copy.
        var bornBlock: UInt64 = 0
        /// Tombstones up to this seqno may have been purged since the file was opened.
        var purged: UInt64 = 0
        /// The `mark` of the failover log on disk; 0 if unknown.
        var logMark: UInt64 = 0
    }

    /// A block, stored at its ordinal.
    struct Block {
        /// 0 for a free ordinal.
        var id: UInt64
        var rawBytes: UInt32
        var documents: UInt8
        var live: UInt8
        var origin: UInt8
        var isMixed: Bool
    }

    let lanes: Int
    private(set) var entries: [Entry]
    private(set) var blocks: [Block] = []
    private var freeOrdinals: [UInt32] = []
    /// The holds of the scans in progress, by number.
    var holds: [UInt64: ScanHold] = [:]
    var nextHold: UInt64 = 0

    private(set) var blockCount = 0
    private(set) var documents = 0
    private(set) var live = 0
    /// Documents in mixed blocks written by commits, which merging rewrites.
    private(set) var mixedDocuments = 0
    private(set) var rawBytes = 0

    init(lanes: Int, vBuckets: Int) {
        self.lanes = lanes
        entries = Array(repeating: Entry(), count: (vBuckets + lanes - 1) / lanes)
    }

    func slot(_ vBucket: UInt16) -> Int { Int(vBucket) / lanes }

    subscript(vBucket: UInt16) -> Entry {
        get { entries[slot(vBucket)] }
        _modify { yield &entries[slot(vBucket)] }
    }

    // MARK: Finding

    /// The run of `vBucket` whose range includes `seqno`; nil if there is none.
    func run(at seqno: UInt64, in vBucket: UInt16) -> DirectoryRun? {
        let runs = entries[slot(vBucket)].runs
        let index = runs.firstIndex(endingAtOrAfter: seqno)
        guard index < runs.count, runs[index].first <= seqno else { return nil }
        return runs[index]
    }

    /// The id of the block whose run of `vBucket` includes `seqno`; nil if there is none.
    func block(of seqno: UInt64, in vBucket: UInt16) -> UInt64? {
        run(at: seqno, in: vBucket).map { blocks[Int($0.ordinal)].id }
    }

    /// The first run of `vBucket` with a seqno above `seqno`, and its block's id; nil if there is
    /// none.
    func run(after seqno: UInt64, in vBucket: UInt16) -> (run: DirectoryRun, block: UInt64)? {
        let runs = entries[slot(vBucket)].runs
        let index = runs.firstIndex(endingAtOrAfter: seqno + 1)
        guard index < runs.count else { return nil }
        return (runs[index], blocks[Int(runs[index].ordinal)].id)
    }

    // MARK: Changing

    /// Adds a committed block.
    ///
    /// All its documents count as live, except those of dropped copies.
    mutating func add(_ block: Block, runs: some Collection<BlockRun>) {
        var block = block
        block.documents = UInt8(runs.reduce(0) { $0 + $1.count })
        block.live = 0
        block.isMixed = runs.contains { $0.vBucket != runs.first?.vBucket }
        let ordinal = allocateOrdinal()
        for run in runs {
            let place = slot(run.vBucket)
            guard block.id >= entries[place].bornBlock else { continue }
            let added = DirectoryRun(run, ordinal: ordinal)
            block.live += UInt8(added.count)
            if let last = entries[place].runs.last, last.last >= added.first {
                let index = entries[place].runs.firstIndex(endingAtOrAfter: added.first)
                entries[place].runs.insert(added, at: index)
            } else {
                entries[place].runs.append(added)
            }
        }
        blocks[Int(ordinal)] = block
        count(block, 1)
    }

    private mutating func allocateOrdinal() -> UInt32 {
        if let ordinal = freeOrdinals.popLast() { return ordinal }
        let none = Block(id: 0, rawBytes: 0, documents: 0, live: 0, origin: 0, isMixed: false)
        blocks.append(none)
        return UInt32(blocks.count - 1)
    }

    private mutating func count(_ block: Block, _ sign: Int) {
        blockCount += sign
        documents += sign * Int(block.documents)
        live += sign * Int(block.live)
        rawBytes += sign * Int(block.rawBytes)
        if block.isMixed, block.origin == UInt8(BlockOrigin.commit.rawValue) {
            mixedDocuments += sign * Int(block.documents)
        }
    }

    /// Marks the version at `seqno` dead: it has a persisted successor.
    ///
    /// Unknown versions are ignored.
    mutating func markDead(_ seqno: UInt64, in vBucket: UInt16) {
        let place = slot(vBucket)
        let index = entries[place].runs.firstIndex(endingAtOrAfter: seqno)
        guard index < entries[place].runs.count else { return }
        let ordinal = Int(entries[place].runs[index].ordinal)
        guard entries[place].runs[index].first <= seqno,
            entries[place].runs[index].markDead(seqno)
        else { return }
        blocks[ordinal].live -= 1
        live -= 1
    }

    /// Marks all versions of a vBucket live again, because its warmup restarts.
    mutating func resetLive(_ vBucket: UInt16) {
        let place = slot(vBucket)
        for index in entries[place].runs.indices {
            let run = entries[place].runs[index]
            let dead = run.count - run.live
            entries[place].runs[index].resetLive()
            blocks[Int(run.ordinal)].live += UInt8(dead)
            live += Int(dead)
        }
    }

    /// Removes blocks and their runs, and frees their ordinals.
    mutating func remove(_ ordinals: Set<UInt32>) {
        for place in entries.indices
        where entries[place].runs.contains(where: { ordinals.contains($0.ordinal) }) {
            entries[place].runs.removeAll { ordinals.contains($0.ordinal) }
        }
        for ordinal in ordinals {
            count(blocks[Int(ordinal)], -1)
            blocks[Int(ordinal)].id = 0
            freeOrdinals.append(ordinal)
        }
    }

    /// Drops a vBucket's copy: all its stored documents are dead.
    mutating func drop(_ vBucket: UInt16, bornBlock: UInt64) {
        let place = slot(vBucket)
        for run in entries[place].runs {
            blocks[Int(run.ordinal)].live -= UInt8(run.live)
            live -= Int(run.live)
        }
        entries[place] = Entry(bornBlock: bornBlock)
    }

    /// Copies the live and dead marks, the holds and the purge seqnos from the directory that this
    /// one replaces.
    mutating func adoptLive(from old: LaneDirectory) {
        holds = old.holds
        nextHold = old.nextHold
        for place in entries.indices {
            entries[place].purged = max(entries[place].purged, old.entries[place].purged)
            for index in entries[place].runs.indices {
                let run = entries[place].runs[index]
                let others = old.entries[place].runs
                let found = others.firstIndex(endingAtOrAfter: run.first)
                guard found < others.count, others[found].first == run.first,
                    others[found].count == run.count,
                    old.blocks[Int(others[found].ordinal)].id == blocks[Int(run.ordinal)].id
                else { continue }
                let dead = run.live - others[found].live
                entries[place].runs[index].adoptLive(from: others[found])
                blocks[Int(run.ordinal)].live -= UInt8(dead)
                live -= Int(dead)
            }
        }
    }

    /// The first overlap of two runs, which only a damaged file has: the vBucket's slot and the
    /// seqno.
    ///
    /// Nil if there is none.
    var overlap: (vBucket: Int, seqno: UInt64)? {
        for (place, entry) in entries.enumerated() {
            for (one, other) in zip(entry.runs, entry.runs.dropFirst())
            where one.last >= other.first {
                return (place, other.first)
            }
        }
        return nil
    }
}

/// A run of one vBucket's seqnos within one block.
///
/// A run takes 24 bytes, and two per dead document while other documents of the run live. Only this
/// type knows which documents are dead: the hash table knows that a key has a newer version, but
/// not whether a newer version is already on disk.
struct DirectoryRun {
    private var firstLow: UInt32
    private var firstHigh: UInt16
    /// Documents, dead ones included.
    private(set) var count: UInt16
    /// The block's index in `LaneDirectory.blocks`; reused after the block is removed.
    private(set) var ordinal: UInt32
    /// Documents without a persisted successor.
    private(set) var live: UInt16
    private var span: UInt16
    /// Seqnos of dead documents as offsets from `first`; empty if all or none are dead.
    private var dead: [UInt16] = []

    init(_ run: BlockRun, ordinal: UInt32) {
        firstLow = UInt32(truncatingIfNeeded: run.first)
        firstHigh = UInt16(run.first >> 32)
        count = UInt16(run.count)
        live = count
        span = UInt16(run.span)
        self.ordinal = ordinal
    }

    var first: UInt64 { UInt64(firstHigh) << 32 | UInt64(firstLow) }

    var last: UInt64 { first + UInt64(span) }

    /// Whether the document at `seqno`, which must be one of the run's, has a persisted successor.
    func isDead(_ seqno: UInt64) -> Bool {
        guard !dead.isEmpty else { return live == 0 }
        return dead.contains(UInt16(truncatingIfNeeded: seqno - first))
    }

    /// Marks the document at `seqno` dead; false if it was already.
    mutating func markDead(_ seqno: UInt64) -> Bool {
        guard !isDead(seqno) else { return false }
        live -= 1
        if live == 0 {
            dead = []
        } else {
            dead.append(UInt16(truncatingIfNeeded: seqno - first))
        }
        return true
    }

    mutating func resetLive() {
        live = count
        dead = []
    }

    /// Copies the live and dead marks of another run over the same documents.
    mutating func adoptLive(from other: DirectoryRun) {
        live = other.live
        dead = other.dead
    }
}

extension [DirectoryRun] {
    /// The index of the first run that ends at `seqno` or later; `count` if there is none.
    func firstIndex(endingAtOrAfter seqno: UInt64) -> Int {
        var low = 0
        var high = count
        while low < high {
            let middle = (low + high) / 2
            if self[middle].last < seqno { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
