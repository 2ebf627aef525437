internal import Bytes

/// Which block holds which seqnos of which vBucket: the lane's map in memory.
///
/// The seqno is the address (storage.md). Items know nothing of the disk; this small table, 24
/// bytes for some thirty documents, does. So compaction moves documents without touching items.
///
/// - A vBucket's runs are sorted by first seqno and never overlap.
/// - Every run's block is in `blocks`; a block without runs has nothing but dead documents.
/// - A version is dead here as soon as a newer one of its key is on disk, and not before: whoever
///   commits or warms up says so, once for each.
struct LaneDirectory {
    /// What a vBucket has in this lane.
    struct Entry {
        var runs: [DirectoryRun] = []
        /// Everything up to here is committed.
        var high: UInt64 = 0
        /// Runs in blocks before this one belong to a copy that was dropped.
        var bornBlock: UInt64 = 0
        /// Tombstones up to here may be gone, since the file was opened.
        var purged: UInt64 = 0
        /// Tells whether the failover log on disk is the one at hand; 0 while there is none.
        var logMark: UInt64 = 0
    }

    /// A block, at its ordinal.
    struct Block {
        /// 0 for an ordinal that is free.
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
    /// Scans under way, by number.
    var holds: [UInt64: ScanHold] = [:]
    var nextHold: UInt64 = 0

    private(set) var blockCount = 0
    private(set) var documents = 0
    private(set) var live = 0
    /// Documents in mixed blocks that commits wrote: what merging is for.
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

    /// The run of `vBucket` that spans `seqno`, if any does.
    func run(at seqno: UInt64, in vBucket: UInt16) -> DirectoryRun? {
        let runs = entries[slot(vBucket)].runs
        let index = runs.firstIndex(endingAtOrAfter: seqno)
        guard index < runs.count, runs[index].first <= seqno else { return nil }
        return runs[index]
    }

    /// The block that holds `seqno` of `vBucket`, if any does.
    func block(of seqno: UInt64, in vBucket: UInt16) -> UInt64? {
        run(at: seqno, in: vBucket).map { blocks[Int($0.ordinal)].id }
    }

    /// The first run of `vBucket` with a seqno beyond `seqno`, and its block.
    func run(after seqno: UInt64, in vBucket: UInt16) -> (run: DirectoryRun, block: UInt64)? {
        let runs = entries[slot(vBucket)].runs
        let index = runs.firstIndex(endingAtOrAfter: seqno + 1)
        guard index < runs.count else { return nil }
        return (runs[index], blocks[Int(runs[index].ordinal)].id)
    }

    // MARK: Changing

    /// Adds a block that was committed; all of it counts as live but what was dropped since.
    mutating func add(_ block: Block, runs: some Collection<BlockRun>) {
        var block = block
        block.documents = UInt8(runs.reduce(0) { $0 + $1.count })
        block.live = 0
        block.isMixed = runs.contains { $0.vBucket != runs.first?.vBucket }
        let ordinal = takeOrdinal()
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

    private mutating func takeOrdinal() -> UInt32 {
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

    /// Notes that the version `seqno` has a persisted successor; unknown ones are left alone.
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

    /// Takes every version of a vBucket for live again: its warmup starts over.
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

    /// Takes blocks out: their runs are gone with them.
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

    /// Forgets a vBucket's copy: what is stored of it is dead.
    mutating func drop(_ vBucket: UInt16, bornBlock: UInt64) {
        let place = slot(vBucket)
        for run in entries[place].runs {
            blocks[Int(run.ordinal)].live -= UInt8(run.live)
            live -= Int(run.live)
        }
        entries[place] = Entry(bornBlock: bornBlock)
    }

    /// Takes over what is known of live documents, and of scans, from the directory this one replaces.
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

    /// The first two runs that overlap, which no file of ours has.
    var overlap: (vBucket: Int, seqno: UInt64)? {
        for (place, entry) in entries.enumerated() {
            for (one, other) in zip(entry.runs, entry.runs.dropFirst())
            where one.last >= other.first {
                return (place, other.first)
            }
        }
        return nil
    }

    /// Bytes of memory, about.
    var memoryUsed: Int {
        let runs = entries.reduce(0) { $0 + $1.runs.capacity }
        return runs * MemoryLayout<DirectoryRun>.stride
            + (documents - live) * MemoryLayout<UInt16>.stride
            + blocks.capacity * MemoryLayout<Block>.stride
            + entries.capacity * MemoryLayout<Entry>.stride
    }
}
