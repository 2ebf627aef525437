internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary

/// Forgets the tombstones of one lane that are past their interval, on disk first and then in
/// memory.
///
/// Works on the writer lane, between commits: one vBucket at a time, and of that as much as fits
/// one bounded transaction. A vBucket's turn comes when a tenth of its documents are tombstones
/// past the interval, and once per interval if there is only one.
final class Purger: Sendable {
    private struct State {
        var isBusy = false
        var isStopped = false
        /// Seconds since 1970: not before, unless a tenth is known to be due.
        var next: [VBucketID: UInt32] = [:]
    }

    private let engine: Bucket
    private let store: LaneStore
    private let warmup: Warmup
    private let worker: DataLanes.Worker
    private let environment: Environment
    private let state = Guarded(State())

    private static let groupsPerSlice = 128
    /// vBuckets that are only looked at before others get their turn on the lane.
    private static let vBucketsPerTurn = 16
    /// Keys that one transaction forgets, and memory after it.
    private static let keysPerStep = 4_096
    private static let keysPerHold = 256

    init(
        engine: Bucket,
        store: LaneStore,
        warmup: Warmup,
        worker: DataLanes.Worker,
        environment: Environment
    ) {
        self.engine = engine
        self.store = store
        self.warmup = warmup
        self.worker = worker
        self.environment = environment
    }

    func stop() { state.withLock { $0.isStopped = true } }

    /// Looks at all vBuckets of the lane once; from anywhere.
    func look(interval: UInt32) {
        let isFirst = state.withLock { state in
            defer { state.isBusy = true }
            return !state.isBusy && !state.isStopped
        }
        guard isFirst else { return }
        let mine = engine.all.map { vBucket in vBucket.withCore { $0.id } }
            .filter { store.owns($0) }
        worker.lane.post { [self] in work(mine[...], interval) }
    }

    // MARK: On the writer lane

    /// Warmup compares versions that a purge would take away under it.
    private var isReady: Bool {
        warmup.progress == nil && store.closedBy == nil && !state.withLock { $0.isStopped }
    }

    private func work(_ vBuckets: ArraySlice<VBucketID>, _ interval: UInt32) {
        guard isReady else { return finish() }
        let now = seconds
        guard now > interval else { return finish() }
        var rest = vBuckets
        for _ in 0..<Purger.vBucketsPerTurn {
            guard let id = rest.first else { return finish() }
            if isTurn(of: id, now, interval) {
                if purge(id, deletedBefore: now - interval) {
                    state.withLock { $0.next[id] = now + interval }
                    rest = rest.dropFirst()
                }
                break
            }
            rest = rest.dropFirst()
        }
        let left = rest
        worker.lane.post { [self] in work(left, interval) }
    }

    private func finish() { state.withLock { $0.isBusy = false } }

    private var seconds: UInt32 {
        UInt32(truncatingIfNeeded: environment.time.wallNanoseconds() / 1_000_000_000)
    }

    private func isTurn(of id: VBucketID, _ now: UInt32, _ interval: UInt32) -> Bool {
        guard let vBucket = engine[id.number] else { return false }
        var census = TombstoneCensus()
        var place: UInt64? = 0
        while let from = place {
            place = vBucket.withCore { core in
                guard core.isLoaded else { return nil }
                return core.count(
                    &census,
                    from: from,
                    groupsMax: Purger.groupsPerSlice,
                    deletedBefore: now - interval
                )
            }
        }
        if census.due * 10 > census.documents { return true }
        guard census.due + census.unknown > 0 else { return false }
        return state.withLock { $0.next[id] ?? 0 } <= now
    }

    /// One step of a vBucket's purge; false where there is more to be purged.
    private func purge(_ id: VBucketID, deletedBefore: UInt32) -> Bool {
        guard let vBucket = engine[id.number] else { return true }
        let last = vBucket.withCore { $0.purgeableSeqno }
        var purged: [(key: [UInt8], seqno: Seqno)] = []
        do throws(StorageError) {
            let summary = try store.purge(
                id,
                deletedBefore: deletedBefore,
                through: last,
                keysMax: Purger.keysPerStep,
                currentSeqno: { id, key, seqno in
                    engine[id.number]?.withCore { core in
                        // What was not read back may be on disk alone, and all of it counts.
                        guard core.isLoaded else { return seqno }
                        return core.currentSeqno(of: key, hash: engine.hash(key), asked: seqno)
                    }
                },
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
            // It is tried again after an interval; whatever is wrong has other witnesses before.
            if error.code != .gone, isReady {
                let name = engine.name
                environment.trace.error("purger", "bucket \(name), \(id): \(error.description)")
            }
            return true
        }
    }

    /// The disk has forgotten; so does memory.
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
                        core.forgetPurged(key, hash: engine.hash(key), seqno: seqno)
                    }
                }
            }
        }
    }
}
