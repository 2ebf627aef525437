internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary

/// What moves between a bucket's memory and its files: one flusher a lane, the fetcher, warmup.
final class BucketDisk: Sendable {
    let store: BucketStore
    let flushers: [Flusher]
    let fetcher: BackgroundFetcher
    let warmup: Warmup

    init(
        engine: Bucket,
        store: BucketStore,
        records: [VBucketRecord],
        counters: BucketCounters,
        service: DataService
    ) {
        self.store = store
        flushers = store.lanes.map { lane in
            Flusher(
                engine: engine,
                store: lane,
                worker: service.lanes.writer(ofLane: lane.number),
                environment: service.environment,
                counters: counters,
                alerts: service.alerts
            )
        }
        fetcher = BackgroundFetcher(
            engine: engine,
            store: store,
            lanes: service.lanes,
            environment: service.environment
        )
        warmup = Warmup(
            engine: engine,
            store: store,
            records: records,
            lanes: service.lanes,
            environment: service.environment,
            alerts: service.alerts
        )
    }

    private func flusher(of vBucket: VBucketID) -> Flusher {
        flushers[Int(vBucket.number) % flushers.count]
    }

    /// A vBucket that had nothing to flush has something now.
    func noteDirty(_ vBucket: VBucketID) { flusher(of: vBucket).noteDirty(vBucket) }

    /// Somebody waits until this vBucket is persisted.
    func flushNow(_ vBucket: VBucketID) { flusher(of: vBucket).flushNow() }

    func stop() {
        for flusher in flushers { flusher.stop() }
    }
}
