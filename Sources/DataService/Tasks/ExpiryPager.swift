internal import Bytes
internal import Engine
internal import Seams
internal import Vocabulary

/// Finds documents whose time has come and that nobody asks for, and deletes them.
///
/// A walk over a bucket every ten minutes, in slices on the nonIO lane.
final class ExpiryPager: Sendable {
    private let worker: DataLanes.Worker
    private let environment: Environment

    private static let groupsPerSlice = 128
    private static let vBucketsPerTurn = 16

    init(service: DocumentService) {
        worker = service.lanes.nonIO
        environment = service.environment
    }

    /// Walks over a bucket once.
    func walk(_ bucket: OpenBucket) { walk(bucket, from: 0) }

    private func walk(_ bucket: OpenBucket, from number: Int) {
        worker.lane.post { [self] in
            guard !bucket.isRetired else { return }
            let end = min(number + ExpiryPager.vBucketsPerTurn, bucket.engine.count)
            for vBucket in bucket.engine.all[number..<end] { expire(vBucket, of: bucket) }
            if end < bucket.engine.count { walk(bucket, from: end) }
        }
    }

    private func expire(_ vBucket: VBucket, of bucket: OpenBucket) {
        var place: UInt64? = 0
        while let from = place {
            let turn = worker.context.turn(environment.time.wallNanoseconds())
            let (slice, id, wakesStreams) = vBucket.withCore { core in
                let slice = core.expireSlice(
                    from: from,
                    groupsMax: ExpiryPager.groupsPerSlice,
                    turn
                )
                return (slice, core.id, core.takeOwedStreamWake())
            }
            if wakesStreams { bucket.traffic.tell(.changed, of: id) }
            bucket.counters.countShared(.expirations, by: slice.count)
            if slice.wakesFlusher { bucket.disk?.noteDirty(id) }
            place = slice.next
        }
    }
}
