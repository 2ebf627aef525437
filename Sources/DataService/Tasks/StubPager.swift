internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary

/// Deletes expired documents of which memory keeps only stubs, and those with extended attributes
/// whose value is ejected.
///
/// Only the disk has a stub's expiry, and the attributes that the tombstone keeps: such a value is
/// read, one at a time. For a vBucket whose first stub has expired, keys and metadata
/// are read from the beginning, about 20 bytes per document. If every vBucket has some at every
/// walk, that is the whole bucket in ten minutes: 2 GB for a hundred million documents, or 3 MB a
/// second. If nothing has expired, nothing is read.
///
/// - Runs in slices on the lane auxIO: nonIO must not wait for a disk, and requests wait for the
///   readers. One work item per slice, so that backfills can run between them.
/// - One walk at a time per bucket; it ends with the bucket.
/// - Nothing expires here while memory is above the high watermark: until it is persisted, a
///   tombstone uses many times the memory of a stub.
final class StubPager: Sendable {
    private struct State {
        /// Buckets with a running walk.
        var busy: Set<ObjectIdentifier> = []
        var isStopped = false
    }

    /// The remainder of a walk.
    private struct Walk {
        let bucket: OpenBucket
        let disk: BucketDisk
        var vBuckets: ArraySlice<VBucket>
    }

    /// A position in a vBucket.
    private struct Place {
        let vBucket: VBucket
        let id: VBucketID
        let scan: StubScan
        var after = Seqno.zero
    }

    /// The results of a slice, reported after its lock and its reader are released.
    private struct Tally {
        var expired = 0
        /// Expired versions whose value has attributes that their tombstones keep.
        var withAttributes: [Seqno] = []
        var wakesFlusher = false
        var wakesStreams = false
        /// The walk of this vBucket ends, and the next one begins it again.
        var isBroken = false

        mutating func countWakeups(of core: inout VBucketCore) {
            if core.takePendingWakeup() { wakesFlusher = true }
            if core.takeOwedStreamWake() { wakesStreams = true }
        }
    }

    private let worker: DataLanes.Worker
    private let environment: Environment
    private let state = Guarded(State())

    /// At most 4 080 documents: some milliseconds, and half a megabyte of tombstones.
    private static let blocksPerSlice = 16
    private static let restNanoseconds: UInt64 = 1_000_000_000

    init(service: DocumentService) {
        worker = service.lanes.auxIO
        environment = service.environment
    }

    func stop() { state.withLock { $0.isStopped = true } }

    /// Walks over some vBuckets of a bucket, unless a walk is running.
    ///
    /// Callable from any lane.
    func walk(_ vBuckets: [VBucket], of bucket: OpenBucket) {
        guard let disk = bucket.disk else { return }
        let isFirst: Bool = state.withLock { state in
            guard !state.isStopped else { return false }
            return state.busy.insert(ObjectIdentifier(bucket)).inserted
        }
        guard isFirst else { return }
        proceed(Walk(bucket: bucket, disk: disk, vBuckets: vBuckets[...]))
    }

    private func proceed(_ walk: Walk) { worker.lane.post { [self] in next(walk) } }

    // MARK: On the lane auxIO

    private func canContinue(_ walk: Walk) -> Bool {
        !walk.bucket.isRetired && !state.withLock { $0.isStopped }
    }

    private func finish(_ walk: Walk) {
        state.withLock { _ = $0.busy.remove(ObjectIdentifier(walk.bucket)) }
    }

    /// Begins the next vBucket.
    private func next(_ walk: Walk) {
        var walk = walk
        guard canContinue(walk), let vBucket = walk.vBuckets.popFirst() else { return finish(walk) }
        let turn = worker.context.turn(environment.time.wallNanoseconds())
        let (id, scan) = vBucket.withCore { ($0.id, $0.beginStubScan(turn)) }
        guard let scan else { return proceed(walk) }
        step(Place(vBucket: vBucket, id: id, scan: scan), walk)
    }

    private func step(_ place: Place, _ walk: Walk) {
        guard canContinue(walk) else { return finish(walk) }
        guard !walk.bucket.engine.account.isAboveHighWatermark else {
            worker.lane.post(after: StubPager.restNanoseconds) { [self] in step(place, walk) }
            return
        }
        do throws(StorageError) {
            guard let after = try slice(place, walk) else { return proceed(walk) }
            var place = place
            place.after = after
            let rest = place
            worker.lane.post { [self] in step(rest, walk) }
        } catch {
            // The next walk retries what cannot be read.
            place.vBucket.withCore { $0.abandon(place.scan) }
            report(error, place, in: walk)
            let run = error.damage?.runs.first { $0.vBucket == place.id && $0.last > place.after }
            guard let run else { return proceed(walk) }
            var place = place
            place.after = run.last
            let rest = place
            worker.lane.post { [self] in step(rest, walk) }
        }
    }

    private func report(_ error: StorageError, _ place: Place, in walk: Walk) {
        // If the bucket was flushed or deleted meanwhile, this is no error.
        let isGone = error.code == .gone || walk.disk.file(of: place.id).closedBy?.code == .gone
        guard !isGone, canContinue(walk) else { return }
        environment.trace.error(
            "expiry",
            bucket: walk.bucket.name,
            "bucket \(walk.bucket.name), \(place.id): the expiry of documents on disk cannot be "
                + "read, and is checked again later: \(error.description)"
        )
    }

    /// Reads some blocks.
    ///
    /// - Returns: The position to continue after; nil at the end of the vBucket.
    /// - Throws: `StorageError` if the blocks cannot be read.
    private func slice(_ place: Place, _ walk: Walk) throws(StorageError) -> Seqno? {
        var tally = Tally()
        defer { report(tally, of: place.id, walk) }
        let turn = worker.context.turn(environment.time.wallNanoseconds())
        let file = walk.disk.file(of: place.id)
        let after = try file.scanMetadata(
            place.id,
            after: place.after,
            blocksMax: StubPager.blocksPerSlice
        ) { cursor in
            expire(cursor, place, in: turn, counting: &tally)
        }
        for seqno in tally.withAttributes where !tally.isBroken {
            try expire(seqno, place, of: walk, in: turn, counting: &tally)
        }
        guard !tally.isBroken else {
            place.vBucket.withCore { $0.abandon(place.scan) }
            return nil
        }
        return after
    }

    /// Expires one version with its value.
    ///
    /// - Throws: `StorageError` if the value cannot be read.
    private func expire(
        _ seqno: Seqno,
        _ place: Place,
        of walk: Walk,
        in turn: ExecutionContext,
        counting tally: inout Tally
    ) throws(StorageError) {
        // A value may be large, and memory has it for a moment.
        guard !walk.bucket.engine.account.isAboveHighWatermark else {
            tally.isBroken = true
            return
        }
        let file = walk.disk.file(of: place.id)
        _ = try file.fetchDocument(place.id, seqno) { meta, key, value in
            place.vBucket.withCore { core in
                guard core.isUnderWay(place.scan) else {
                    tally.isBroken = true
                    return
                }
                let count = value.count
                let outcome = core.expireStub(meta, key: key, valueCount: count, value: value, turn)
                if outcome == .expired { tally.expired += 1 }
                tally.countWakeups(of: &core)
            }
        }
    }

    /// Expires stubs of one run in one hold of the lock, from the first document with an expiry on.
    ///
    /// - Returns: Whether to continue reading.
    private func expire(
        _ cursor: MetadataCursor,
        _ place: Place,
        in turn: ExecutionContext,
        counting tally: inout Tally
    ) -> Bool {
        while cursor.next() {
            guard cursor.seqno <= place.scan.last else { return false }
            guard cursor.meta.expiry != 0, !cursor.meta.isDeleted else { continue }
            place.vBucket.withCore { core in
                // The vBucket was emptied since the block was read, or its copy may no longer
                // change.
                guard core.isUnderWay(place.scan) else {
                    tally.isBroken = true
                    return
                }
                repeat {
                    let outcome = core.expireStub(
                        cursor.meta,
                        key: cursor.key,
                        valueCount: cursor.valueLength,
                        turn
                    )
                    switch outcome {
                    case .expired: tally.expired += 1
                    case .needsValue: tally.withAttributes.append(cursor.seqno)
                    case .kept: break
                    }
                } while cursor.next()
                tally.countWakeups(of: &core)
            }
            return !tally.isBroken
        }
        return true
    }

    private func report(_ tally: Tally, of id: VBucketID, _ walk: Walk) {
        if tally.wakesStreams { walk.bucket.traffic.notify(.changed, of: id) }
        walk.bucket.counters.countShared(.expirations, by: tally.expired)
        if tally.wakesFlusher { walk.disk.markDirty(id) }
    }
}
