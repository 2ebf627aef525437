package import Bytes
package import Vocabulary

/// Reads one vBucket from disk in seqno order, a slice at a time, for a stream that memory no
/// longer has the changes of.
///
/// What comes of it is the vBucket as it was at `end`, the boundary that was committed when the scan
/// began (storage.md, "Backfill liveness").
///
/// - While it lives, compaction and purge keep what it has yet to read; dropping it lets go.
/// - No connection and no transaction is held between slices.
/// - Prepares that were outstanding at `end` are among what it reads; `outstanding` names them all,
///   as aborts leave nothing to be read.
/// - A copy that is dropped, or a bucket that is flushed, ends it with an error: what was read is
///   a part of nothing.
package final class VBucketScan: Sendable {
    /// Where a slice ended.
    package enum Progress: Hashable, Sendable {
        case more
        case ended
    }

    package let vBucket: VBucketID
    /// The end of the snapshot.
    package let end: Seqno
    /// False where tombstones behind the scan's beginning were purged: its reader must begin anew.
    package let isComplete: Bool
    /// The prepares that were neither committed nor aborted at `end`, by seqno, those before the
    /// scan's beginning too.
    package let outstanding: [Seqno]
    private let prepares: [StoredPrepare]
    private let lane: LaneStore
    private let number: UInt64
    private let hold: ScanHold
    private struct State {
        var position: Seqno
        /// Of the prepares.
        var next: Int
    }

    private let state: Guarded<State>

    init(
        _ lane: LaneStore,
        _ vBucket: VBucketID,
        after seqno: Seqno,
        _ prepares: [StoredPrepare]
    ) {
        self.lane = lane
        self.vBucket = vBucket
        (number, hold) = lane.directory.withLock { $0.hold(vBucket.number, after: seqno.value) }
        end = Seqno(hold.end)
        isComplete = hold.isComplete
        outstanding = prepares.map(\.meta.seqno)
        self.prepares = prepares
        let next = prepares.firstIndex { $0.meta.seqno > seqno } ?? prepares.count
        state = Guarded(State(position: seqno, next: next))
    }

    deinit {
        let number = number
        lane.directory.withLock { _ = $0.holds.removeValue(forKey: number) }
    }

    /// Everything up to here was read.
    package var position: Seqno { state.withLock { $0.position } }

    /// Reads on.
    ///
    /// - Parameters:
    ///   - bytesMax: Ends the slice behind the block that reaches so many bytes of values.
    ///   - isTired: Asked between blocks; true ends the slice, when it took long enough.
    ///   - isNeeded: Whether the version is the newest, or what replaced it lies behind `end`: the
    ///     table knows. Must not call back into the store.
    ///   - prepare: Called per prepare, in its place among the documents.
    ///   - visit: Called per document in ascending seqno, with the same restriction.
    /// - Throws: What could not be read, or `gone` where the copy is not there any more.
    /// - Returns: Whether there is more.
    package func slice(
        bytesMax: Int = 4 << 20,
        isTired: () -> Bool = { false },
        isNeeded: (_ key: ByteView, Seqno) -> Bool,
        prepare: (StoredPrepare) -> Void,
        visit: (DocumentMeta, _ key: ByteView, _ value: ByteView) -> Void
    ) throws(StorageError) -> Progress {
        var next = state.withLock { $0.next }
        func visitPrepares(through seqno: Seqno) {
            while next < prepares.count, prepares[next].meta.seqno <= seqno {
                prepare(prepares[next])
                next += 1
            }
        }
        var bytes = 0
        var blocks = 0
        var last = position
        let place = try lane.walk(vBucket, after: last, .max) {
            (reader, block, after) throws(StorageError) in
            last = Seqno(after)
            guard bytes < bytesMax, blocks == 0 || !isTired() else { return .sliceDone }
            guard lane.directory.withLock({ $0.isCurrent(self.hold) }) else { throw self.gone }
            guard after < self.end.value else { return .ended }
            guard try reader.openMeta(block), reader.cursor.select(vBucket.number, after: after)
            else { return .moved }
            blocks += 1
            return try self.read(reader, block, &bytes, isNeeded) { meta, key, value in
                visitPrepares(through: meta.seqno)
                visit(meta, key, value)
            }
        }
        // A drop in the midst of a slice looks like the end of the vBucket.
        guard lane.directory.withLock({ $0.isCurrent(hold) }) else { throw gone }
        let reached = min(place ?? end, end)
        visitPrepares(through: reached)
        state.withLock { $0 = State(position: reached, next: next) }
        lane.directory.withLock { $0.holds[number]?.place = reached.value }
        return reached >= end ? .ended : .more
    }

    private func read(
        _ reader: LaneReader,
        _ block: UInt64,
        _ bytes: inout Int,
        _ isNeeded: (ByteView, Seqno) -> Bool,
        _ visit: (DocumentMeta, ByteView, ByteView) -> Void
    ) throws(StorageError) -> LaneStore.WalkOutcome {
        var needed: [(place: Int, seqno: Seqno)] = []
        let start = reader.cursor.position
        while reader.cursor.next(), reader.cursor.seqno <= end {
            let seqno = reader.cursor.seqno
            if isNeeded(reader.cursor.key, seqno) {
                needed.append((reader.cursor.place, seqno))
            }
        }
        // Blocks of which nothing is needed are not decompressed.
        guard !needed.isEmpty else { return .visited }
        guard try reader.openBody(block) else { return .moved }
        guard reader.body.runs == reader.cursor.runs else { throw reader.damaged(block, .body) }
        reader.cursor.position = start
        for (place, seqno) in needed {
            while reader.cursor.next(), reader.cursor.place < place {}
            precondition(reader.cursor.seqno == seqno, "a block stays as it was opened")
            let value = reader.body.value(place)
            bytes += value.count
            visit(reader.cursor.meta, reader.cursor.key, value)
        }
        return .visited
    }

    private var gone: StorageError {
        StorageError(.gone, "\(vBucket) was dropped while it was read")
    }
}

extension LaneStore {
    /// Begins to read a vBucket's documents behind `seqno` in order.
    ///
    /// Waits for a commit or a step of compaction under way: not to be called under a vBucket's lock.
    package func scan(
        _ vBucket: VBucketID,
        after seqno: Seqno
    ) throws(StorageError) -> VBucketScan {
        precondition(owns(vBucket), "\(vBucket) is not in lane \(number)")
        let empty = writer.withLock { _ in
            exists ? nil : VBucketScan(self, vBucket, after: seqno, [])
        }
        if let empty { return empty }
        // Under the writer's lock, and with a directory that was read after the last failure: the
        // prepares are those of the commit that the scan ends at.
        return try write { (_, lane) throws(StorageError) in
            VBucketScan(self, vBucket, after: seqno, try lane.prepares.read(vBucket.number))
        }
    }
}
