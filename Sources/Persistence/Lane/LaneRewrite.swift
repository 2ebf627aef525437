internal import Bytes
internal import Vocabulary

/// Blocks being replaced by fewer or purer ones: the common part of compaction, merge and purge.
///
/// - Runs inside one transaction on the writing connection: a crash finds the old blocks or the
///   new ones, never both, never none.
/// - Keeps whatever it is not told is dead.
struct LaneRewrite {
    private let directory: Guarded<LaneDirectory>
    private let reader: LaneReader
    private(set) var victims: Set<UInt32> = []
    private var blocks: [UInt64] = []
    private let documents = DocumentBuffer()
    /// Places in the block at hand that stay.
    private var kept: [Int] = []
    private(set) var dropped = 0
    /// Dead ones that stay, because a scan has yet to read them.
    private(set) var held: [(vBucket: UInt16, seqno: UInt64)] = []

    init(_ directory: Guarded<LaneDirectory>, _ reader: LaneReader) {
        self.directory = directory
        self.reader = reader
    }

    /// Reads a victim and keeps of it what is not dead; `isDead` is also told what the directory
    /// thinks.
    mutating func take(
        _ victim: VictimCandidate,
        isDead: (VBucketID, MetadataCursor, _ isNoted: Bool) -> Bool
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
            while cursor.next() {
                let seqno = cursor.seqno.value
                let isNoted = current.isDead(seqno)
                guard !isDead(VBucketID(run.vBucket), cursor, isNoted) else { continue }
                kept.append(cursor.place)
                guard isNoted else { continue }
                let isHeld = directory.withLock { $0.isHeld(seqno, in: run.vBucket) }
                if isHeld { held.append((run.vBucket, seqno)) }
            }
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
                guard cursor.place == kept[next] else { continue }
                next += 1
                documents.append(
                    cursor.meta,
                    in: run.vBucket,
                    key: cursor.key,
                    value: reader.body.value(cursor.place)
                )
            }
        }
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
            (0..<UInt32(entries.count)).sorted { one, other in
                let (first, second) = (entries[Int(one)], entries[Int(other)])
                return first.vBucket == second.vBucket
                    ? first.seqno < second.seqno : first.vBucket < second.vBucket
            }
        }
    }
}
