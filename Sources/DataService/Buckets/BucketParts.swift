internal import Engine
internal import Persistence
internal import Seams

/// The parts of a bucket that all tasks of its files use.
struct BucketParts: Sendable {
    let engine: Bucket
    let store: BucketStore
    let lanes: DataLanes
    let environment: Environment
    let counters: TrafficCounters
    let alerts: AlertBoard

    /// Traces an error of a task of the bucket.
    func report(_ task: String, _ text: String) {
        let name = engine.name
        environment.trace.error(task, bucket: name, "bucket \(name): \(text)")
    }
}
