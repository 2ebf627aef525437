internal import Engine
internal import Seams
internal import Vocabulary

/// Purges the tombstones of ephemeral buckets that are older than the interval.
///
/// If memory is short, the `ItemPager` purges them earlier.
///
/// Walks in slices on the nonIO lane, over vBuckets with tombstones.
final class TombstonePager: Sendable {
    private let worker: DataLanes.Worker
    private let environment: Environment

    private static let groupsPerSlice = 128
    private static let vBucketsPerTurn = 16

    init(service: DocumentService) {
        worker = service.lanes.nonIO
        environment = service.environment
    }

    /// Walks over a bucket once.
    func walk(_ bucket: OpenBucket) {
        let now = UInt32(truncatingIfNeeded: environment.time.wallNanoseconds() / 1_000_000_000)
        let interval = bucket.settings.purgeSeconds
        guard now > interval else { return }
        walk(bucket, from: 0, deletedBefore: now - interval)
    }

    /// Purges the tombstones of any age once, except those that a reader has not read.
    func purgeAll(_ bucket: OpenBucket) { walk(bucket, from: 0, deletedBefore: .max) }

    private func walk(_ bucket: OpenBucket, from number: Int, deletedBefore: UInt32) {
        worker.lane.post { [self] in
            guard !bucket.isRetired else { return }
            let end = min(number + TombstonePager.vBucketsPerTurn, bucket.engine.count)
            for vBucket in bucket.engine.all[number..<end] { forget(vBucket, deletedBefore) }
            if end < bucket.engine.count { walk(bucket, from: end, deletedBefore: deletedBefore) }
        }
    }

    private func forget(_ vBucket: VBucket, _ deletedBefore: UInt32) {
        vBucket.forEachSlice { core, from in
            guard core.tombstoneCount > 0 else { return nil }
            return core.forgetTombstones(
                from: from,
                groupsMax: TombstonePager.groupsPerSlice,
                deletedBefore: deletedBefore
            ).next
        }
    }
}
