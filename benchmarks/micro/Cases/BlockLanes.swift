internal import Bytes
internal import Persistence
internal import Seams
internal import Vocabulary

/// The product's layout: blocks, with compaction as the data service drives it.
final class BlockLanes: FlushLanes, @unchecked Sendable {  // tidy:allow each lane is one thread's
    private struct Progress {
        var budget = 0.0
        var deadShareMax = 0.0
    }

    /// What the data service writes again in one step.
    private static let stepBytes = 4 << 20

    private let store: BucketStore
    private let documents: FlushDocuments
    private let batches = (0..<FlushComparison.lanes).map { _ in CommitBatch() }
    private let progress = Guarded([Progress](repeating: Progress(), count: FlushComparison.lanes))
    private(set) var bytesBefore: UInt64 = 0
    private(set) var bytesAfter: UInt64 = 0

    init(_ disk: any Disk, _ directory: String, _ documents: FlushDocuments) throws {
        self.documents = documents
        store = try BucketStore.open(
            disk: disk,
            directory: directory,
            name: "flush",
            uuid: String(repeating: "0", count: 32),
            settings: StoreSettings(),
            now: 1
        )
        precondition(store.settings.lanes == FlushComparison.lanes, "both layouts have four lanes")
    }

    var deadShareMax: Double {
        progress.withLock { $0.map(\.deadShareMax).max() ?? 0 }
    }

    func insert(lane: Int) throws -> [() throws -> Int] {
        documents.inserts(lane: lane, lanes: FlushComparison.lanes).map { draw in
            { [self] in try commit(draw(), lane) }
        }
    }

    func overwrite(lane: Int, pass: Int) throws -> [() throws -> Int] {
        documents.overwrites(lane: lane, lanes: FlushComparison.lanes, pass: pass).map { draw in
            { [self] in try commit(draw(), lane) }
        }
    }

    private func commit(_ changes: [FlushDocuments.Change], _ number: Int) throws -> Int {
        let (lane, batch) = (store.lanes[number], batches[number])
        // Keep at most half of the versions dead: at that share both layouts use the same space.
        while lane.compactionNeeded().willBeHalfDead(after: changes.count) {
            guard try compact(lane) else { break }
        }
        batch.reset()
        documents.append(changes, to: batch)
        let summary = try lane.commit(batch)
        let need = lane.compactionNeeded()
        let steps = progress.withLock { progress in
            progress[number].budget += need.bytesPerFlushedByte * Double(summary.rawBytes)
            progress[number].deadShareMax = max(progress[number].deadShareMax, need.deadShare)
            let steps = Int(progress[number].budget / Double(BlockLanes.stepBytes))
            progress[number].budget -= Double(steps * BlockLanes.stepBytes)
            return steps
        }
        for _ in 0..<steps { guard try compact(lane) else { break } }
        return changes.count
    }

    private func compact(_ lane: LaneStore, isUnhurried: Bool = false) throws -> Bool {
        let summary = try lane.compactStep(
            bytesMax: BlockLanes.stepBytes,
            isUnhurried: isUnhurried
        ) {
            [documents] _, key, _ in
            var number = 0
            for digit in key.dropFirst(4).buffer { number = number * 10 + Int(digit) - 48 }
            return Seqno(documents.seqno(number))
        }
        return summary.kind != .nothing
    }

    /// Compacts all lanes, and measures the remaining bytes.
    func finish() throws {
        bytesBefore = try size()
        for lane in store.lanes {
            while try compact(lane, isUnhurried: true) {}
        }
        try store.closeCleanly()
        bytesAfter = try size()
    }

    private func size() throws -> UInt64 {
        try store.lanes.reduce(0) { sum, lane in
            let statistics = try lane.statistics()
            return sum + statistics.fileBytes + statistics.walBytes
        }
    }
}

extension CompactionNeed {
    /// Whether a commit that overwrites `count` documents would leave more dead versions than live
    /// ones.
    fileprivate func willBeHalfDead(after count: Int) -> Bool {
        documents > count && (dead + count) * 2 > documents + count
    }
}
