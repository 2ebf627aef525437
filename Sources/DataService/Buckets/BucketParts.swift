internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary

/// The parts of a bucket that all tasks of its files use.
struct BucketParts: Sendable {
    let engine: Bucket
    let store: BucketStore
    let lanes: DataLanes
    let environment: Environment
    let counters: TrafficCounters
    let alerts: AlertTable

    /// The seqno of a key's version in memory, as `VBucketCore.currentSeqno` returns it.
    ///
    /// Nil if the node has no such vBucket. If a vBucket is not loaded, it may have versions only on
    /// disk: all of them count.
    func currentSeqno(_ id: VBucketID, _ key: ByteView, asked seqno: Seqno) -> Seqno? {
        engine[id.number]?.withCore { core in
            guard core.isLoaded else { return seqno }
            return core.currentSeqno(of: key, hash: engine.hash(key), asked: seqno)
        }
    }

    /// Traces an error of a task of the bucket.
    func report(_ task: String, _ text: String) {
        let name = engine.name
        environment.trace.error(task, bucket: name, "bucket \(name): \(text)")
    }
}
