internal import Engine
package import Persistence
package import Vocabulary

/// The connection between a bucket's memory and its files: a flusher per lane file, the fetcher,
/// warmup.
package final class BucketDisk: Sendable {
    let store: BucketStore
    /// The files of this instance's generation; a bucket flush replaces the files of the store.
    private let files: [LaneStore]
    let flushers: [Flusher]
    let fetcher: BackgroundFetcher
    let warmup: Warmup
    private let compactors: [Compactor]
    private let purgers: [Purger]
    private let heat: HeatSaver

    init(
        engine: Bucket,
        store: BucketStore,
        records: [VBucketRecord],
        counters: TrafficCounters,
        traffic: ChangeTraffic,
        service: DocumentService
    ) {
        self.store = store
        files = store.lanes
        let parts = BucketParts(
            engine: engine,
            store: store,
            lanes: service.lanes,
            environment: service.environment,
            counters: counters,
            alerts: service.alerts
        )
        let warmup = Warmup(parts, records: records)
        self.warmup = warmup
        fetcher = BackgroundFetcher(parts)
        let lanes = store.lanes
        let compactors = lanes.map { Compactor(parts, store: $0, warmup: warmup) }
        self.compactors = compactors
        purgers = lanes.map { Purger(parts, store: $0, warmup: warmup) }
        heat = HeatSaver(parts, warmup: warmup)
        let pace = FlushQueue.Pace(
            delay: UInt64(Limits.commitDelayMillisecondsMax) * 1_000_000,
            ageMax: UInt64(Limits.commitAgeMillisecondsMax) * 1_000_000,
            restFactor: UInt64(Limits.commitRestFactor * lanes.count - 1)
        )
        flushers = zip(lanes, compactors).map { lane, compactor in
            Flusher(
                parts,
                store: lane,
                traffic: traffic,
                compactor: compactor,
                pace: pace
            )
        }
    }

    private func flusher(of vBucket: VBucketID) -> Flusher {
        flushers[Int(vBucket.number) % flushers.count]
    }

    package func file(of vBucket: VBucketID) -> LaneStore {
        files[Int(vBucket.number) % files.count]
    }

    /// Schedules a flush of a vBucket that had nothing to flush.
    func markDirty(_ vBucket: VBucketID) { flusher(of: vBucket).markDirty(vBucket) }

    /// Flushes a vBucket at once: a client or a copy waits for it.
    func flushNow(_ vBucket: VBucketID) { flusher(of: vBucket).flushNow(vBucket) }

    func flushSoon(_ vBucket: VBucketID) { flusher(of: vBucket).flushSoon(vBucket) }

    /// Flushes everything: memory is short.
    func flushAll() {
        for flusher in flushers { flusher.flushAll() }
    }

    /// The time that commits of everything that waits will need, in milliseconds, rounded up.
    ///
    /// Lane files are written beside each other, so the slowest one counts. 0 if nothing waits.
    var millisecondsToPersist: UInt32 {
        let slowest = flushers.map(\.nanosecondsToPersist).max() ?? 0
        return UInt32(clamping: (slowest + 999_999) / 1_000_000)
    }

    /// Whether all changes and states of vBuckets are persisted.
    var isWritten: Bool { flushers.allSatisfy(\.isFinished) }

    /// Holds clients' writes to the vBuckets of files whose commits fail or hang.
    ///
    /// - Returns: When to check again, if that is before the next round; nil for no such moment.
    func checkStalls() -> UInt64? { flushers.compactMap { $0.checkStall() }.min() }

    /// Releases files and memory that were not used lately, in the background.
    func closeIdle() {
        for flusher in flushers { flusher.closeIdle() }
    }

    func stop() {
        for flusher in flushers { flusher.stop() }
        stopMaintenance()
        warmup.stop()
    }

    /// Stops the work on the files that no change waits for.
    func stopMaintenance() {
        for compactor in compactors { compactor.stop() }
        for purger in purgers { purger.stop() }
        heat.stop()
    }

    /// Purges tombstones older than the interval (seconds), in the background.
    func purge(interval: UInt32) {
        for purger in purgers { purger.purge(interval: interval) }
    }

    /// Purges tombstones of any age, in the background.
    ///
    /// - Returns: False during warmup, when nothing can be purged.
    func purgeAll() -> Bool {
        guard warmup.progress == nil else { return false }
        for purger in purgers { purger.purgeAll() }
        return true
    }

    /// Saves the heat in the background.
    func saveHeat() { heat.save() }

    /// Compacts all lane files as far as possible, in the background.
    ///
    /// - Returns: Whether all files are being compacted: false during warmup, and after `stop`.
    func compact() -> Bool {
        compactors.map { $0.compactAll() }.allSatisfy { $0 }
    }

    /// Ends `compact` between two steps; no effect if it does not run.
    func cancelCompaction() {
        for compactor in compactors { compactor.cancel() }
    }

    /// How far `compact` is, in all files; nil if it does not run.
    ///
    /// Files that are compacted completely count as long as another one is being compacted.
    var compaction: CompactionWork? {
        let parts = compactors.map(\.forced)
        guard parts.contains(where: { $0.isRunning }) else { return nil }
        return parts.reduce(into: CompactionWork(done: 0, total: 0)) { sum, part in
            sum.done += part.work.done
            sum.total += part.work.total
        }
    }

    /// The bytes of the files, and the part of them that live documents use.
    var bytes: (used: UInt64, data: UInt64) {
        var (used, data) = (UInt64(0), UInt64(0))
        for lane in store.lanes {
            // The failure of a lane file was reported by the operation that found it.
            guard let statistics = try? lane.statistics() else { continue }
            let bytes = statistics.fileBytes + statistics.walBytes
            used += bytes
            data += UInt64(Double(statistics.fileBytes) * (1 - statistics.fragmentation))
        }
        return (used, data)
    }

    /// Saves the heat for the next warmup, before the files are closed.
    ///
    /// - Throws: `StorageError` if a lane file cannot be written.
    func saveHeat(of engine: Bucket) throws(StorageError) {
        for lane in store.lanes where warmup.isWarm(lane.number) {
            var heat: [(vBucket: VBucketID, bytes: [UInt8])] = []
            for vBucket in engine.all {
                let (id, found) = vBucket.withCore { core in
                    lane.owns(core.id) && core.isLoaded ? (core.id, core.heat()) : (core.id, nil)
                }
                if let found, !found.isEmpty { heat.append((id, found.bytes)) }
            }
            if !heat.isEmpty { try lane.saveHeat(heat) }
        }
    }
}
