internal import Bytes
internal import Engine
internal import Seams
internal import Vocabulary

/// Finds documents whose time has come and that nobody asks for, and deletes them.
///
/// A walk over a bucket every ten minutes, in slices on the nonIO lane: over what memory has the
/// keys of. Where stubs may be due as well, the `StubPager` asks the disk afterwards.
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

    /// Ends what takes longer than a walk.
    func stop() { stubs.stop() }

    /// - Parameters:
    ///   - bucket: Where.
    ///   - number: The vBucket to go on with.
    ///   - found: Those before it that may have stubs that are due.
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
            if wakesStreams { bucket.traffic.tell(.changed, of: id) }
            bucket.counters.countShared(.expirations, by: slice.count)
            if slice.wakesFlusher { bucket.disk?.noteDirty(id) }
            place = slice.next
        }
    }
}
