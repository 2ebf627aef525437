internal import Bytes
internal import Vocabulary

/// Blocks being replaced by fewer or purer ones: the common part of compaction, merge and purge.
///
/// - Runs inside one transaction on the writing connection: a crash finds the old blocks or the
///   new ones, never both, never none.
/// - Keeps whatever it is not told is dead.
struct LaneRewrite {
    private(set) var victims: Set<UInt32> = []
    private var blocks: [UInt64] = []
    private let documents = DocumentBuffer()
    private var kept: [Int] = []
    private(set) var dropped = 0

    /// Reads a victim and keeps of it what `keeps` says.
    mutating func take(
        _ ordinal: UInt32,
        _ block: UInt64,
        _ reader: LaneReader,
        _ directory: Guarded<LaneDirectory>,
        keeps: (VBucketID, MetadataCursor) -> Bool
    ) throws(StorageError) {
        victims.insert(ordinal)
        blocks.append(block)
        guard try reader.openMeta(block) else {
            throw reader.damaged(block, .meta)
        }
        let cursor = reader.cursor
        kept.removeAll(keepingCapacity: true)
        for (index, run) in cursor.runs.enumerated() {
            // The directory's word first: a dropped copy's seqnos may come again elsewhere.
            let current = directory.withLock { $0.block(of: run.first, in: run.vBucket) }
            guard current == block else { continue }
            cursor.select(run: index)
            while cursor.next() {
                if keeps(VBucketID(run.vBucket), cursor) { kept.append(cursor.place) }
            }
        }
        dropped += cursor.documents - kept.count
        guard !kept.isEmpty else { return }
        guard try reader.openBody(block), reader.body.runs == cursor.runs else {
            throw reader.damaged(block, .body)
        }
        copyKept(cursor, reader.body)
    }

    private func copyKept(_ cursor: MetadataCursor, _ body: BodyReader) {
        var next = 0
        for (index, run) in cursor.runs.enumerated() {
            cursor.select(run: index)
            while next < kept.count, cursor.next() {
                guard cursor.place == kept[next] else { continue }
                documents.append(
                    cursor.meta,
                    in: run.vBucket,
                    key: cursor.key,
                    value: body.value(cursor.place)
                )
                next += 1
            }
        }
    }

    /// Writes what was kept as new blocks and deletes the victims.
    mutating func write(
        _ lane: LaneWriter,
        _ packer: inout BlockPacker,
        _ directory: Guarded<LaneDirectory>,
        nextBlock: inout UInt64,
        insert: (DocumentBuffer, ArraySlice<UInt32>, UInt64) throws(StorageError) -> Void
    ) throws(StorageError) {
        pack(&packer, directory)
        for range in packer.blocks {
            try insert(documents, packer.order[range], nextBlock)
            nextBlock += 1
        }
        for block in blocks { try lane.delete(block: block) }
        packer.removeAll()
        lane.encoder.trim()
    }

    /// Sorts by vBucket and seqno, and keeps apart what a surviving run lies between.
    private func pack(_ packer: inout BlockPacker, _ directory: Guarded<LaneDirectory>) {
        packer.removeAll()
        let order = documents.sortedOrder()
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
}

extension DocumentBuffer {
    /// Indices by vBucket, then seqno.
    fileprivate func sortedOrder() -> [UInt32] {
        entries.withUnsafeBufferPointer { entries in
            (0..<UInt32(entries.count)).sorted { one, other in
                let (first, second) = (entries[Int(one)], entries[Int(other)])
                return first.vBucket == second.vBucket
                    ? first.seqno < second.seqno : first.vBucket < second.vBucket
            }
        }
    }
}
