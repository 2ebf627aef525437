internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary
internal import Wire

/// A read of a value or a whole document that was ejected and that a request needs.
struct FetchRequest: Sendable {
    let vBucket: VBucketID
    let seqno: Seqno
    /// The request's key; if `isWhole`, the version on disk may have another key.
    let key: [UInt8]
    let hash: UInt64
    /// Memory has only a stub of the version, with its seqno.
    let isWhole: Bool
}

/// Reads ejected values from disk on the reader lanes, while reactors serve other requests.
///
/// Requests for the same version share one read. Each waiting request then consults the vBucket
/// again, so that nothing is decided here. `DiskReading` discards what was read if the vBucket was
/// emptied meanwhile.
final class BackgroundFetcher: Sendable {
    private struct Version: Hashable {
        let vBucket: VBucketID
        let seqno: Seqno
    }

    private let parts: BucketParts
    /// The files of this instance's generation; a bucket flush replaces the files of the store.
    private let files: [LaneStore]
    private let waiting = Guarded<[Version: [@Sendable (Completion) -> Void]]>([:])

    init(_ parts: BucketParts) {
        self.parts = parts
        files = parts.store.lanes
    }

    /// Calls `done` once the value is in memory, or with the reason why it cannot be.
    func fetch(_ request: FetchRequest, _ done: @escaping @Sendable (Completion) -> Void) {
        parts.counters.countShared(.backgroundFetches)
        let version = Version(vBucket: request.vBucket, seqno: request.seqno)
        let isFirst = waiting.withLock { waiting in
            waiting[version, default: []].append(done)
            return waiting[version]?.count == 1
        }
        guard isFirst else { return }
        guard let vBucket = parts.engine[request.vBucket.number] else {
            return end(version, .ready)
        }
        // From now on, as the request's version is that of the present history.
        let reading = DiskReading(of: vBucket)
        let worker = parts.lanes.reader(ofLane: Int(request.vBucket.number))
        let time = parts.environment.time
        let requested = time.monotonicNanoseconds()
        worker.lane.post { [self] in
            let began = time.monotonicNanoseconds()
            let completion = read(request, reading, in: worker.context)
            let ended = time.monotonicNanoseconds()
            parts.counters.record(.backgroundWait, nanoseconds: began - requested)
            parts.counters.record(.backgroundLoad, nanoseconds: ended - began)
            if let completion { return end(version, completion) }
            let number = file(of: request.vBucket).number
            parts.lanes.writer(ofLane: number).lane.post { [self] in
                end(version, missingDocumentCompletion(request, reading))
            }
        }
    }

    private func end(_ version: Version, _ completion: Completion) {
        let callbacks = waiting.withLock { $0.removeValue(forKey: version) } ?? []
        for callback in callbacks { callback(completion) }
    }

    private func file(of vBucket: VBucketID) -> LaneStore {
        files[Int(vBucket.number) % files.count]
    }

    /// Reads the value or the document into memory; nil if it is not on disk.
    private func read(
        _ request: FetchRequest,
        _ reading: DiskReading,
        in context: LaneContext
    ) -> Completion? {
        let value = context.scratch
        value.removeAll(keepingAtMost: 1 << 20)
        let lane = file(of: request.vBucket)
        do throws(StorageError) {
            if request.isWhole { return try readWhole(request, reading, lane: lane, in: context) }
            guard try lane.fetchValue(request.vBucket, request.seqno, into: value) else {
                return nil
            }
            install(value.view, for: request, reading: reading, in: context)
            return .ready
        } catch  where error.code == .gone || lane.closedBy?.code == .gone {
            // A retry finds the bucket's successor, or no bucket.
            return .failed(.temporaryFailure, error.description)
        } catch {
            parts.report("fetcher", error.description)
            return .failed(
                error.isPermanent ? .internalError : .temporaryFailure,
                error.description
            )
        }
    }

    private func readWhole(
        _ request: FetchRequest,
        _ reading: DiskReading,
        lane: LaneStore,
        in context: LaneContext
    ) throws(StorageError) -> Completion? {
        let turn = context.turn(parts.environment.time.wallNanoseconds())
        let isFound = try lane.fetchDocument(request.vBucket, request.seqno) { meta, key, value in
            _ = reading.fill { core in
                core.restore(meta, key: key, valueCount: value.count, value: value, turn)
            }
        }
        return isFound ? .ready : nil
    }

    /// Decides about a version that is not on disk; on the lane file's writer lane.
    ///
    /// A purge removes a tombstone from disk and then from memory in one work item of that lane. A
    /// tombstone that is in memory after such an item is therefore lost, not purged.
    private func missingDocumentCompletion(
        _ request: FetchRequest,
        _ reading: DiskReading
    ) -> Completion {
        // Superseded and compacted meanwhile, purged, or of a history that was erased: retry.
        let (hash, seqno) = (request.hash, request.seqno)
        let isLost = request.key.withUnsafeBytes { buffer in
            let key = ByteView(buffer)
            return reading.fill { core in
                request.isWhole
                    ? core.currentSeqno(of: key, hash: hash, asked: seqno) == seqno
                    : core.isEjected(key, hash: hash, at: seqno)
            }
        }
        guard isLost == true else { return .ready }
        let what = request.isWhole ? "document" : "value"
        let place = "\(request.vBucket) seqno \(seqno.value)"
        parts.environment.trace.fault("fetcher", "the \(what) of \(place) is missing on disk")
        return .failed(.internalError, "The \(what) is missing on disk.")
    }

    private func install(
        _ value: ByteView,
        for request: FetchRequest,
        reading: DiskReading,
        in context: LaneContext
    ) {
        let turn = context.turn(parts.environment.time.wallNanoseconds())
        request.key.withUnsafeBytes { buffer in
            _ = reading.fill { core in
                let key = ByteView(buffer)
                return core.install(value, of: request.seqno, key: key, hash: request.hash, turn)
            }
        }
    }
}

extension StorageError {
    /// Whether another read cannot succeed: bytes are lost, or not ours.
    ///
    /// After other failures the next read may succeed, so clients are told to retry, as during
    /// warmup from the same disk.
    fileprivate var isPermanent: Bool {
        switch code {
        case .damaged, .foreign, .otherFormat, .quarantined: true
        case .full, .failed, .denied, .missing, .busy, .gone: false
        }
    }
}
