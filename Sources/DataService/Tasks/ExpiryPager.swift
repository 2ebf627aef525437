internal import Engine
internal import Seams
internal import Vocabulary

/// Deletes expired documents that no client requests.
///
/// Walks a bucket every ten minutes, in slices on the nonIO lane, over the documents whose keys are
/// in memory. For vBuckets that may have expired stubs, the `StubPager` reads the disk afterwards.
final class ExpiryPager: Sendable {
    private let worker: DataLanes.Worker
    private let environment: Environment
    private let stubs: StubPager

    private static let groupsPerSlice = 128
    private static let vBucketsPerTurn = 16

    init(service: DocumentService) {
        worker = service.lanes.nonIO
        environment = service.environment
        stubs = StubPager(service: service)
    }

    /// Walks over a bucket once.
    func walk(_ bucket: OpenBucket) { walk(bucket, from: 0, []) }

    /// Stops the walk over stubs, which may take long.
    func stop() { stubs.stop() }

    /// - Parameters:
    ///   - bucket: The bucket.
    ///   - number: The vBucket to continue with.
    ///   - found: The earlier vBuckets that may have expired stubs.
    private func walk(_ bucket: OpenBucket, from number: Int, _ found: [VBucket]) {
        worker.lane.post { [self] in
            guard !bucket.isRetired else { return }
            let end = min(number + ExpiryPager.vBucketsPerTurn, bucket.engine.count)
            let vBuckets = bucket.engine.all[number..<end]
            for vBucket in vBuckets { expire(vBucket, of: bucket) }
            let found = found + vBuckets.filter(mayHaveDueStubs)
            if end < bucket.engine.count { return walk(bucket, from: end, found) }
            if !found.isEmpty { stubs.walk(found, of: bucket) }
        }
    }

    private func mayHaveDueStubs(_ vBucket: VBucket) -> Bool {
        let turn = worker.context.turn(environment.time.wallNanoseconds())
        return vBucket.withCore { $0.mayHaveDueStubs(turn) }
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
            if wakesStreams { bucket.traffic.notify(.changed, of: id) }
            bucket.counters.countShared(.expirations, by: slice.count)
            if slice.wakesFlusher { bucket.disk?.markDirty(id) }
            place = slice.next
        }
    }
}
