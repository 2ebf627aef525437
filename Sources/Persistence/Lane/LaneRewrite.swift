internal import Bytes
internal import Vocabulary

/// Whether a stored version is needed.
enum Liveness {
    case live
    /// It has a committed successor.
    case dead
    /// It has a successor that is not committed: one version of the key must stay, and if there
    /// are several, the newest is enough.
    case waiting
}

/// Blocks being replaced by fewer or purer ones: the common part of compaction, merge and purge.
///
/// - Runs inside one transaction on the writing connection: a crash finds the old blocks or the
///   new ones, never both, never none.
/// - Keeps whatever it is not told is dead. Of a key that is overwritten all the time every
///   version is found waiting, so of these only the newest is kept: otherwise a small set of hot
///   keys would fill the disk.
struct LaneRewrite {
    private struct Key: Hashable {
        let vBucket: UInt16
        let bytes: [UInt8]
    }

    private let directory: Guarded<LaneDirectory>
    private let reader: LaneReader
    private(set) var victims: Set<UInt32> = []
    private var blocks: [UInt64] = []
    private let documents = DocumentBuffer()
    /// Whether a document that was taken is to be written.
    private var isKept: [Bool] = []
    private var kept: [(place: Int, liveness: Liveness)] = []
    /// Where in `documents` the newest waiting version of a key is.
    private var waiting: [Key: Int] = [:]
    /// Of the waiting versions of a vBucket, how many are known to be dead.
    private var deadWaiting: [UInt16: Int] = [:]
    private(set) var dropped = 0

    init(_ directory: Guarded<LaneDirectory>, _ reader: LaneReader) {
        self.directory = directory
        self.reader = reader
    }

    /// Reads a victim and keeps of it what `liveness` says.
    mutating func take(
        _ victim: VictimCandidate,
        liveness: (VBucketID, MetadataCursor) -> Liveness
    ) throws(StorageError) {
        let block = victim.block.id
        victims.insert(victim.ordinal)
        blocks.append(block)
        guard try reader.openMeta(block) else { throw reader.damaged(block, .meta) }
        let cursor = reader.cursor
        kept.removeAll(keepingCapacity: true)
        for (index, run) in cursor.runs.enumerated() {
            // The directory's word first: a dropped copy's seqnos may come again elsewhere.
            let current = directory.withLock { $0.run(at: run.first, in: run.vBucket) }
            guard let current, current.ordinal == victim.ordinal else { continue }
            cursor.select(run: index)
            let before = kept.count
            while cursor.next() {
                let liveness = liveness(VBucketID(run.vBucket), cursor)
                if liveness != .dead { kept.append((cursor.place, liveness)) }
            }
            let surplus = kept.count - before - Int(current.live)
            if surplus > 0 { deadWaiting[run.vBucket, default: 0] += surplus }
        }
        dropped += cursor.documents - kept.count
        guard !kept.isEmpty else { return }
        guard try reader.openBody(block), reader.body.runs == cursor.runs else {
            throw reader.damaged(block, .body)
        }
        copyKept()
    }

    private mutating func copyKept() {
        let cursor = reader.cursor
        var next = 0
        for (index, run) in cursor.runs.enumerated() {
            cursor.select(run: index)
            while next < kept.count, cursor.next() {
                guard cursor.place == kept[next].place else { continue }
                let isWaiting = kept[next].liveness == .waiting
                next += 1
                if isWaiting, !isNewest(cursor, in: run.vBucket) { continue }
                documents.append(
                    cursor.meta,
                    in: run.vBucket,
                    key: cursor.key,
                    value: reader.body.value(cursor.place)
                )
                isKept.append(true)
            }
        }
    }

    /// Takes note of a waiting version about to be appended; false where a newer one is at hand.
    private mutating func isNewest(_ cursor: MetadataCursor, in vBucket: UInt16) -> Bool {
        let key = Key(vBucket: vBucket, bytes: cursor.key.bytes)
        if let other = waiting[key] {
            dropped += 1
            if let dead = deadWaiting[vBucket], dead > 0 { deadWaiting[vBucket] = dead - 1 }
            guard documents.entries[other].seqno < cursor.seqno.value else { return false }
            isKept[other] = false
        }
        waiting[key] = documents.count
        return true
    }

    /// Writes what was kept as new blocks and deletes the victims.
    mutating func write(
        _ lane: LaneWriter,
        _ packer: inout BlockPacker,
        insert: (DocumentBuffer, ArraySlice<UInt32>) throws(StorageError) -> Void
    ) throws(StorageError) {
        pack(&packer)
        for range in packer.blocks { try insert(documents, packer.order[range]) }
        for block in blocks { try lane.delete(block: block) }
        packer.removeAll()
        lane.encoder.trim()
    }

    /// Waiting versions that the directory must not count as live: as many as it knew to be dead.
    var deadSeqnos: [(vBucket: UInt16, seqno: UInt64)] {
        var left = deadWaiting.filter { $0.value > 0 }
        guard !left.isEmpty else { return [] }
        let entries = waiting.values.map { documents.entries[$0] }.sorted { $0.seqno < $1.seqno }
        var dead: [(vBucket: UInt16, seqno: UInt64)] = []
        for entry in entries {
            guard let count = left[entry.vBucket], count > 0 else { continue }
            left[entry.vBucket] = count - 1
            dead.append((entry.vBucket, entry.seqno))
        }
        return dead
    }

    /// Sorts by vBucket and seqno, and keeps apart what a surviving run lies between.
    private func pack(_ packer: inout BlockPacker) {
        packer.removeAll()
        let order = sortedOrder()
        var start = 0
        while start < order.count {
            let vBucket = documents.entries[Int(order[start])].vBucket
            var end = start
            while end < order.count, documents.entries[Int(order[end])].vBucket == vBucket {
                end += 1
            }
            let surviving = directory.withLock { directory in
                directory[vBucket].runs.filter { !victims.contains($0.ordinal) }
            }
            var run = 0
            for index in order[start..<end] {
                let seqno = documents.entries[Int(index)].seqno
                while run < surviving.count, surviving[run].first < seqno { run += 1 }
                documents.assign(group: UInt32(run), to: Int(index))
            }
            packer.add(order[start..<end], of: documents)
            start = end
        }
        packer.finish(documents)
    }

    private func sortedOrder() -> [UInt32] {
        documents.entries.withUnsafeBufferPointer { entries in
            (0..<UInt32(entries.count)).filter { isKept[Int($0)] }.sorted { one, other in
                let (first, second) = (entries[Int(one)], entries[Int(other)])
                return first.vBucket == second.vBucket
                    ? first.seqno < second.seqno : first.vBucket < second.vBucket
            }
        }
    }
}
