internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary
internal import Wire

/// A value, or a whole document, that memory let go and a request needs.
struct FetchRequest: Sendable {
    let vBucket: VBucketID
    let seqno: Seqno
    /// The request's; where `isWhole`, the version's own may be another.
    let key: [UInt8]
    let hash: UInt64
    /// Memory knows no more of the version than its seqno.
    let isWhole: Bool
}

/// Brings values back from disk, on the reader lanes, while reactors serve others.
///
/// Requests for the same version share one read. Whoever waited then asks the vBucket again, so
/// nothing is decided here.
final class BackgroundFetcher: Sendable {
    private struct Version: Hashable {
        let vBucket: VBucketID
        let seqno: Seqno
    }

    private let engine: Bucket
    /// Those of the bucket's own generation: after a flush the store has others.
    private let files: [LaneStore]
    private let lanes: DataLanes
    private let environment: Environment
    private let counters: BucketCounters
    private let waiting = Guarded<[Version: [@Sendable (Completion) -> Void]]>([:])

    init(
        engine: Bucket,
        store: BucketStore,
        lanes: DataLanes,
        environment: Environment,
        counters: BucketCounters
    ) {
        self.engine = engine
        self.counters = counters
        files = store.lanes
        self.lanes = lanes
        self.environment = environment
    }

    /// Calls `done` once the value is there, or can never be.
    func fetch(_ request: FetchRequest, _ done: @escaping @Sendable (Completion) -> Void) {
        counters.countShared(.backgroundFetches)
        let version = Version(vBucket: request.vBucket, seqno: request.seqno)
        let isFirst = waiting.withLock { waiting in
            waiting[version, default: []].append(done)
            return waiting[version]?.count == 1
        }
        guard isFirst else { return }
        let worker = lanes.reader(ofLane: Int(request.vBucket.number))
        worker.lane.post { [self] in
            if let completion = read(request, worker.context) {
                return end(version, completion)
            }
            let number = file(of: request.vBucket).number
            lanes.writer(ofLane: number).lane.post { [self] in
                end(version, verdict(request))
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

    /// Nil where the disk has no such document.
    private func read(_ request: FetchRequest, _ context: LaneContext) -> Completion? {
        let value = context.scratch
        value.removeAll(keepingAtMost: 1 << 20)
        let lane = file(of: request.vBucket)
        do throws(StorageError) {
            if request.isWhole { return try readWhole(request, lane, context) }
            let outcome = try lane.fetchValue(request.vBucket, request.seqno, into: value)
            return install(request, outcome, value.view, context)
        } catch  where error.code == .gone || lane.closedBy?.code == .gone {
            // Whoever asks again finds the bucket that took its place, or none.
            return .failed(.temporaryFailure, error.description)
        } catch {
            environment.trace.error("fetcher", "bucket \(engine.name): \(error.description)")
            return .failed(error.isForGood ? .internalError : .temporaryFailure, error.description)
        }
    }

    private func readWhole(
        _ request: FetchRequest,
        _ lane: LaneStore,
        _ context: LaneContext
    ) throws(StorageError) -> Completion? {
        guard let vBucket = engine[request.vBucket.number] else { return .ready }
        let turn = context.turn(environment.time.wallNanoseconds())
        let outcome = try lane.fetchDocument(request.vBucket, request.seqno) { meta, key, value in
            vBucket.withCore { core in
                _ = core.restore(meta, key: key, valueCount: value.count, value: value, turn)
            }
        }
        return outcome == .found ? .ready : nil
    }

    /// On the lane's writer lane: what to make of a document that is not on disk.
    ///
    /// A purge forgets a tombstone on disk first, and then in memory, in one turn of that lane: what
    /// memory still knows behind such a turn is not purged, but lost.
    private func verdict(_ request: FetchRequest) -> Completion {
        // Superseded and compacted meanwhile, or purged: ask again.
        let isLost = request.key.withUnsafeBytes { buffer in
            let key = ByteView(buffer)
            return engine[request.vBucket.number]?.withCore { core in
                core.currentSeqno(of: key, hash: request.hash, asked: request.seqno)
                    == request.seqno
            }
        }
        guard isLost == true else { return .ready }
        let what = "\(request.vBucket) seqno \(request.seqno.value)"
        environment.trace.fault("fetcher", "the document of \(what) is not on disk")
        return .failed(.internalError, "The document is not on disk any more.")
    }

    private func install(
        _ request: FetchRequest,
        _ outcome: FetchOutcome,
        _ value: ByteView,
        _ context: LaneContext
    ) -> Completion {
        guard let vBucket = engine[request.vBucket.number] else { return .ready }
        let turn = context.turn(environment.time.wallNanoseconds())
        return request.key.withUnsafeBytes { buffer in
            let key = ByteView(buffer)
            return vBucket.withCore { core in
                switch outcome {
                case .found:
                    core.install(value, of: request.seqno, key: key, hash: request.hash, turn)
                    return .ready
                case .missing:
                    // Superseded and compacted meanwhile: ask again. Else the disk lost it.
                    guard core.isEjected(key, hash: request.hash, at: request.seqno)
                    else { return .ready }
                    let what = "\(request.vBucket) seqno \(request.seqno.value)"
                    environment.trace.fault("fetcher", "the value of \(what) is not on disk")
                    return .failed(.internalError, "The value is not on disk any more.")
                }
            }
        }
    }
}

extension StorageError {
    /// Reading it again cannot go better: bytes are lost, or not ours.
    ///
    /// What failed otherwise is tried afresh by the next read, so clients are told to ask again, as
    /// they are while keys are read back from the same disk.
    fileprivate var isForGood: Bool {
        switch code {
        case .damaged, .foreign, .newer, .quarantined: true
        case .full, .failed, .denied, .missing, .busy, .gone: false
        }
    }
}
