internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary

/// Purges the tombstones of one lane file that are older than the interval: first on disk, then in
/// memory.
///
/// Runs on the writer lane, between commits: one vBucket at a time, and as much of it as fits one
/// bounded transaction. A vBucket is purged when a tenth of its documents are due tombstones, and
/// once per interval if it has any. A requested purge of all tombstones (`purgeAll`) heeds no age.
final class Purger: Sendable {
    private struct State {
        var isBusy = false
        var isStopped = false
        /// A purge of all tombstones was requested and has not begun.
        var isAllRequested = false
        /// The earliest next purge in seconds since 1970, unless a tenth is known to be due.
        var next: [VBucketID: UInt32] = [:]
    }

    private let parts: BucketParts
    private let store: LaneStore
    private let warmup: Warmup
    private let worker: DataLanes.Worker
    private let state = Guarded(State())

    private static let groupsPerSlice = 128
    /// vBuckets that are only examined before other work of the lane can run.
    private static let vBucketsPerTurn = 16
    /// The keys purged by one transaction, and afterwards in memory.
    private static let keysPerStep = 4_096
    private static let keysPerHold = 256

    init(_ parts: BucketParts, store: LaneStore, warmup: Warmup) {
        self.parts = parts
        self.store = store
        self.warmup = warmup
        worker = parts.lanes.writer(ofLane: store.number)
    }

    func stop() { state.withLock { $0.isStopped = true } }

    /// Examines all vBuckets of the lane file once.
    ///
    /// Callable from any lane.
    ///
    /// - Parameter interval: The age of tombstones to purge, in seconds.
    func purge(interval: UInt32) {
        let isFirst = state.withLock { !exchange(&$0.isBusy, with: true) && !$0.isStopped }
        if isFirst { post(interval) }
    }

    /// Purges the tombstones of any age once, also if a purge by age is running.
    ///
    /// Tombstones that are not persisted, or that a reader of changes has not read, stay. Callable
    /// from any lane.
    func purgeAll() {
        let isFirst = state.withLock { state in
            defer { state.isBusy = true }
            state.isAllRequested = state.isBusy
            return !state.isBusy && !state.isStopped
        }
        if isFirst { post(nil) }
    }

    private func post(_ interval: UInt32?) {
        let mine = parts.engine.all.map { vBucket in vBucket.withCore { $0.id } }
            .filter { store.owns($0) }
        worker.lane.post { [self] in work(mine[...], interval) }
    }

    // MARK: On the writer lane

    /// Not during warmup, which compares versions that a purge would remove.
    private var isReady: Bool {
        warmup.progress == nil && store.closedBy == nil && !state.withLock { $0.isStopped }
    }

    /// Works on some of the vBuckets, and posts the rest; without an interval, on tombstones of any
    /// age.
    private func work(_ vBuckets: ArraySlice<VBucketID>, _ interval: UInt32?) {
        let now = seconds
        guard isReady, now > interval ?? 0 else { return finish() }
        let deletedBefore = interval.map { now - $0 } ?? .max
        var rest = vBuckets
        for _ in 0..<Purger.vBucketsPerTurn {
            guard let id = rest.first else { return finish() }
            if isTurn(of: id, now, interval) {
                if purge(id, deletedBefore: deletedBefore) {
                    if let interval { state.withLock { $0.next[id] = now + interval } }
                    rest = rest.dropFirst()
                }
                break
            }
            rest = rest.dropFirst()
        }
        let left = rest
        worker.lane.post { [self] in work(left, interval) }
    }

    private func finish() {
        let isMore = state.withLock { state in
            defer { state.isAllRequested = false }
            state.isBusy = state.isAllRequested && !state.isStopped
            return state.isBusy
        }
        if isMore { post(nil) }
    }

    private var seconds: UInt32 {
        UInt32(truncatingIfNeeded: parts.environment.time.wallNanoseconds() / 1_000_000_000)
    }

    private func isTurn(of id: VBucketID, _ now: UInt32, _ interval: UInt32?) -> Bool {
        guard let vBucket = parts.engine[id.number] else { return false }
        guard let interval else {
            return vBucket.withCore { $0.isLoaded && $0.tombstoneCount > 0 }
        }
        var census = TombstoneCensus()
        vBucket.forEachSlice { core, from in
            guard core.isLoaded else { return nil }
            return core.count(
                &census,
                from: from,
                groupsMax: Purger.groupsPerSlice,
                deletedBefore: now - interval
            )
        }
        if census.due * 10 > census.documents { return true }
        guard census.due + census.unknown > 0 else { return false }
        return state.withLock { $0.next[id] ?? 0 } <= now
    }

    /// Runs one step of a vBucket's purge.
    ///
    /// - Returns: False if there is more to purge.
    private func purge(_ id: VBucketID, deletedBefore: UInt32) -> Bool {
        guard let vBucket = parts.engine[id.number] else { return true }
        let last = vBucket.withCore { $0.purgeableSeqno }
        var purged: [(key: [UInt8], seqno: Seqno)] = []
        do throws(StorageError) {
            let summary = try store.purge(
                id,
                deletedBefore: deletedBefore,
                through: last,
                keysMax: Purger.keysPerStep,
                currentSeqno: { parts.currentSeqno($0, $1, asked: $2) },
                willPurge: { summary in
                    vBucket.withCore { core in
                        core.notePurge(
                            through: summary.purgeSeqno,
                            maxRevision: summary.maxRevision
                        )
                    }
                },
                didPurge: { key, seqno in purged.append((key.bytes, seqno)) }
            )
            forget(purged[...], in: vBucket)
            return !summary.isPartial
        } catch {
            // Retried after an interval; other operations report a failing disk before.
            if error.code != .gone, isReady {
                parts.report("purger", "\(id): \(error.description)")
            }
            return true
        }
    }

    /// Purges in memory what was purged on disk.
    private func forget(
        _ purged: ArraySlice<(key: [UInt8], seqno: Seqno)>,
        in vBucket: VBucket
    ) {
        var rest = purged
        while !rest.isEmpty {
            let part = rest.prefix(Purger.keysPerHold)
            rest = rest.dropFirst(Purger.keysPerHold)
            vBucket.withCore { core in
                for (key, seqno) in part {
                    key.withUnsafeBytes { buffer in
                        let key = ByteView(buffer)
                        core.forgetPurged(key, hash: parts.engine.hash(key), seqno: seqno)
                    }
                }
            }
        }
    }
}
