internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary

/// Deletes documents whose time has come and of which memory keeps only stubs.
///
/// Which they are the disk has to say: of a vBucket where the first of them is due, keys and
/// metadata are read from the beginning, some 20 bytes a document. Where every vBucket has some at
/// every walk that is all of the bucket in ten minutes: of a hundred million documents 2 GB, which is
/// 3 MB a second. Where nothing is due nothing is read.
///
/// - Works in slices on the lane auxIO: nonIO must not wait for a disk, and for the readers requests
///   wait. One post a slice, so that backfills get their turns.
/// - One walk at a time for each bucket; it ends with the bucket.
/// - Nothing expires here while memory is above the high watermark: a tombstone takes many times
///   the room of a stub until it is on disk.
final class StubPager: Sendable {
    private struct State {
        /// Buckets that are being walked over.
        var busy: Set<ObjectIdentifier> = []
        var isStopped = false
    }

    /// What is left of a walk.
    private struct Walk {
        let bucket: OpenBucket
        let disk: BucketDisk
        var vBuckets: ArraySlice<VBucket>
    }

    /// How far a vBucket was read.
    private struct Place {
        let vBucket: VBucket
        let id: VBucketID
        let scan: StubScan
        var after = Seqno.zero
    }

    /// What came of a slice, told once its lock and its reader are given back.
    private struct Tally {
        var expired = 0
        var wakesFlusher = false
        var wakesStreams = false
        var isBroken = false
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

    /// Walks over some vBuckets of a bucket, unless it is walked over already; from anywhere.
    func walk(_ vBuckets: [VBucket], of bucket: OpenBucket) {
        guard let disk = bucket.disk else { return }
        let isFirst: Bool = state.withLock { state in
            guard !state.isStopped else { return false }
            return state.busy.insert(ObjectIdentifier(bucket)).inserted
        }
        guard isFirst else { return }
        goOn(Walk(bucket: bucket, disk: disk, vBuckets: vBuckets[...]))
    }

    private func goOn(_ walk: Walk) { worker.lane.post { [self] in next(walk) } }

    // MARK: On the lane auxIO

    private func canGoOn(_ walk: Walk) -> Bool {
        !walk.bucket.isRetired && !state.withLock { $0.isStopped }
    }

    private func finish(_ walk: Walk) {
        state.withLock { _ = $0.busy.remove(ObjectIdentifier(walk.bucket)) }
    }

    /// Begins with the next vBucket.
    private func next(_ walk: Walk) {
        var walk = walk
        guard canGoOn(walk), let vBucket = walk.vBuckets.popFirst() else { return finish(walk) }
        let turn = worker.context.turn(environment.time.wallNanoseconds())
        let (id, scan) = vBucket.withCore { ($0.id, $0.beginStubScan(turn)) }
        guard let scan else { return goOn(walk) }
        step(Place(vBucket: vBucket, id: id, scan: scan), walk)
    }

    private func step(_ place: Place, _ walk: Walk) {
        guard canGoOn(walk) else { return finish(walk) }
        guard !walk.bucket.engine.account.isAboveHighWatermark else {
            worker.lane.post(after: StubPager.restNanoseconds) { [self] in step(place, walk) }
            return
        }
        do throws(StorageError) {
            guard let after = try slice(place, walk) else { return goOn(walk) }
            var place = place
            place.after = after
            let rest = place
            worker.lane.post { [self] in step(rest, walk) }
        } catch {
            // What cannot be read is asked for again by the next walk.
            place.vBucket.withCore { $0.abandon(place.scan) }
            tell(error, place, walk)
            let run = error.damage?.runs.first { $0.vBucket == place.id && $0.last > place.after }
            guard let run else { return goOn(walk) }
            var place = place
            place.after = run.last
            let rest = place
            worker.lane.post { [self] in step(rest, walk) }
        }
    }

    private func tell(_ error: StorageError, _ place: Place, _ walk: Walk) {
        // Flushed or deleted meanwhile: nothing is wrong.
        let isGone = error.code == .gone || walk.disk.file(of: place.id).closedBy?.code == .gone
        guard !isGone, canGoOn(walk) else { return }
        environment.trace.error(
            "expiry",
            "bucket \(walk.bucket.name), \(place.id): documents on disk could not be asked whether "
                + "their time has come, the next walk tries again: \(error.description)"
        )
    }

    /// Reads some blocks; returns where to go on, nil where the vBucket is through.
    private func slice(_ place: Place, _ walk: Walk) throws(StorageError) -> Seqno? {
        var tally = Tally()
        defer { tell(tally, of: place.id, walk) }
        let turn = worker.context.turn(environment.time.wallNanoseconds())
        let file = walk.disk.file(of: place.id)
        let after = try file.scanMetadata(
            place.id,
            after: place.after,
            blocksMax: StubPager.blocksPerSlice
        ) { cursor in
            expire(cursor, place, turn, &tally)
        }
        if tally.isBroken { place.vBucket.withCore { $0.abandon(place.scan) } }
        return after
    }

    /// Goes through a run under one hold of the lock, from its first document with an expiry on.
    ///
    /// - Returns: Whether there is more to be read.
    private func expire(
        _ cursor: MetadataCursor,
        _ place: Place,
        _ turn: Turn,
        _ tally: inout Tally
    ) -> Bool {
        while cursor.next() {
            guard cursor.seqno <= place.scan.last else { return false }
            guard cursor.meta.expiry != 0, !cursor.meta.isDeleted else { continue }
            place.vBucket.withCore { core in
                // Emptied since the block was read, or not to be changed here any more.
                guard core.isUnderWay(place.scan) else {
                    tally.isBroken = true
                    return
                }
                repeat {
                    let isExpired = core.expireStub(
                        cursor.meta,
                        key: cursor.key,
                        valueCount: cursor.valueLength,
                        turn
                    )
                    if isExpired { tally.expired += 1 }
                } while cursor.next()
                if core.takeOwedWake() { tally.wakesFlusher = true }
                if core.takeOwedStreamWake() { tally.wakesStreams = true }
            }
            return !tally.isBroken
        }
        return true
    }

    private func tell(_ tally: Tally, of id: VBucketID, _ walk: Walk) {
        if tally.wakesStreams { walk.bucket.traffic.tell(.changed, of: id) }
        walk.bucket.counters.countShared(.expirations, by: tally.expired)
        if tally.wakesFlusher { walk.disk.noteDirty(id) }
    }
}
