package import Bytes
package import Vocabulary

/// Reads one vBucket from disk in seqno order, in slices, for a stream whose changes are no longer
/// in memory.
///
/// The result is the vBucket as it was at `end`, the committed seqno when the scan began.
///
/// - During the scan's lifetime, compaction and purge keep the versions that it has not read yet.
/// - No connection and no transaction is held between slices.
/// - Prepares outstanding at `end` are visited among the documents. `outstanding` lists all of them,
///   because aborts leave no record on disk.
/// - If the copy is dropped or the bucket flushed, the scan fails: the part read so far is not a
///   snapshot.
package final class VBucketScan: Sendable {
    /// Whether the scan continues after a slice.
    package enum Progress: Hashable, Sendable {
        case more
        case ended
    }

    package let vBucket: VBucketID
    /// The last seqno of the snapshot.
    package let end: Seqno
    /// The newest document or tombstone that the disk has through `end`; zero if it has none.
    package let lastDocument: Seqno
    /// False if tombstones after the scan's start were purged: the reader must restart from zero.
    package let isComplete: Bool
    /// The seqnos of the prepares outstanding at `end`, ascending, including those before the scan's
    /// start.
    package let outstanding: [Seqno]
    private let prepares: [StoredPrepare]
    private let lane: LaneStore
    private let number: UInt64
    private let hold: ScanHold
    private struct State {
        var position: Seqno
        /// The index of the next prepare to visit.
        var next: Int
    }

    private let state: Guarded<State>

    init(
        _ lane: LaneStore,
        _ vBucket: VBucketID,
        after seqno: Seqno,
        prepares: [StoredPrepare]
    ) {
        self.lane = lane
        self.vBucket = vBucket
        let last: UInt64
        (number, hold, last) = lane.directory.withLock { directory in
            let (number, hold) = directory.hold(vBucket.number, after: seqno.value)
            return (number, hold, directory[vBucket.number].runs.last?.last ?? 0)
        }
        end = Seqno(hold.end)
        lastDocument = min(Seqno(last), Seqno(hold.end))
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

    /// The scan has read all seqnos up to this one.
    package var position: Seqno { state.withLock { $0.position } }

    /// Reads the next slice.
    ///
    /// - Parameters:
    ///   - bytesMax: The slice ends after the block that reaches this many bytes of values.
    ///   - isOverTime: Called between blocks; true ends the slice.
    ///   - isNeeded: Whether the version is the key's newest, or its successor is after `end`; the
    ///     hash table knows. Must not call back into the store.
    ///   - prepare: Called per prepare, in seqno order with the documents.
    ///   - visit: Called per document in ascending seqno. Must not call back into the store.
    /// - Throws: `StorageError`: `.gone` if the copy was dropped; with `damage` if a block is
    ///   unreadable.
    /// - Returns: `.ended` if everything up to `end` was read.
    package func readSlice(
        bytesMax: Int = 4 << 20,
        isOverTime: () -> Bool = { false },
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
        let place = try lane.walk(vBucket, after: last, blocksMax: .max) {
            (reader, block, after) throws(StorageError) in
            last = Seqno(after)
            guard bytes < bytesMax, blocks == 0 || !isOverTime() else { return .sliceDone }
            guard lane.directory.withLock({ $0.isCurrent(self.hold) }) else { throw self.gone }
            guard after < self.end.value else { return .ended }
            guard try reader.openMeta(block), reader.cursor.select(vBucket.number, after: after)
            else { return .moved }
            blocks += 1
            return try self.read(reader, block, bytes: &bytes, isNeeded: isNeeded) {
                meta,
                key,
                value in
                visitPrepares(through: meta.seqno)
                visit(meta, key, value)
            }
        }
        // A drop during a slice looks like the end of the vBucket.
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
        bytes: inout Int,
        isNeeded: (ByteView, Seqno) -> Bool,
        visit: (DocumentMeta, ByteView, ByteView) -> Void
    ) throws(StorageError) -> LaneStore.WalkOutcome {
        var needed: [(place: Int, seqno: Seqno)] = []
        let start = reader.cursor.position
        while reader.cursor.next(), reader.cursor.seqno <= end {
            let seqno = reader.cursor.seqno
            if isNeeded(reader.cursor.key, seqno) {
                needed.append((reader.cursor.place, seqno))
            }
        }
        // A block without a needed document is not decompressed.
        guard !needed.isEmpty else { return .visited }
        guard try reader.openBody(block) else { return .moved }
        guard reader.body.runs == reader.cursor.runs else { throw reader.damaged(block, .body) }
        reader.cursor.position = start
        for (place, seqno) in needed {
            while reader.cursor.next(), reader.cursor.place < place {}
            precondition(reader.cursor.seqno == seqno, "the opened block is unchanged")
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
    /// Starts a scan of a vBucket's documents after `seqno`, in seqno order.
    ///
    /// Waits for a commit or compaction step in progress, so it must not be called under a vBucket's
    /// lock.
    ///
    /// - Throws: `StorageError`: `.damaged` if a prepare is invalid, any code if the lane is closed
    ///   or its file fails.
    /// - Returns: The scan; of a lane without a file, one that ends at once.
    package func scan(
        _ vBucket: VBucketID,
        after seqno: Seqno
    ) throws(StorageError) -> VBucketScan {
        precondition(owns(vBucket), "\(vBucket) is not in lane \(number)")
        let empty = writer.withLock { _ in
            exists ? nil : VBucketScan(self, vBucket, after: seqno, prepares: [])
        }
        if let empty { return empty }
        // Under the writer's lock, with a directory read after the last failure, the prepares are
        // those of the commit at the scan's end.
        return try write { (_, lane) throws(StorageError) in
            VBucketScan(
                self,
                vBucket,
                after: seqno,
                prepares: try lane.prepares.read(vBucket.number)
            )
        }
    }
}
