internal import Bytes
internal import Vocabulary

/// Replaces blocks by fewer or purer ones: the common part of compaction, merge and purge.
///
/// - Runs inside one transaction on the write connection: after a crash either the old blocks exist
///   or the new ones, never both, never neither.
/// - Keeps every document that the caller does not declare dead.
struct LaneRewrite {
    private let directory: Guarded<LaneDirectory>
    private let reader: LaneReader
    private(set) var victims: Set<UInt32> = []
    private var blocks: [UInt64] = []
    private let documents = DocumentBuffer()
    /// The places of the current block's documents that are kept.
    private var kept: [Int] = []
    private(set) var dropped = 0
    /// Dead versions that are kept because a scan has not read them yet.
    private(set) var held: [(vBucket: UInt16, seqno: UInt64)] = []

    init(_ directory: Guarded<LaneDirectory>, _ reader: LaneReader) {
        self.directory = directory
        self.reader = reader
    }

    /// Reads a victim block and copies the documents that are not dead.
    ///
    /// `isDead` receives in `isNoted` whether the directory has the version marked dead.
    mutating func addVictim(
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
            // Runs that the directory no longer has here belong to a dropped copy, whose seqnos may
            // occur again in other blocks.
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

    /// Writes the kept documents as new blocks and deletes the victims.
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

    /// Sorts the documents by vBucket and seqno, and separates documents that have a surviving run
    /// between them.
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
