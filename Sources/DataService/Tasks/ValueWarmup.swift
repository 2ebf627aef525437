internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary

/// The last pass of warmup: values of loaded vBuckets of one lane, those that were in use first, until
/// memory is full to the low watermark.
///
/// Works in slices on a reader lane, between background fetches. It is a courtesy: whatever it
/// leaves on disk is fetched when it is asked for.
final class ValueWarmup: Sendable {
    private enum Pass {
        /// The documents of a class of heat.
        case heat(Int)
        /// All that is left.
        case rest
    }

    private let engine: Bucket
    private let lane: LaneStore
    private let vBuckets: [VBucketID]
    private let worker: DataLanes.Worker
    private let environment: Environment
    private let isStopped: @Sendable () -> Bool
    /// Told once, when no more will come.
    private let ended: @Sendable () -> Void

    private static let sliceBytes = 4 << 20

    init(
        engine: Bucket,
        lane: LaneStore,
        vBuckets: [VBucketID],
        worker: DataLanes.Worker,
        environment: Environment,
        isStopped: @escaping @Sendable () -> Bool,
        ended: @escaping @Sendable () -> Void
    ) {
        self.engine = engine
        self.lane = lane
        self.vBuckets = vBuckets
        self.worker = worker
        self.environment = environment
        self.isStopped = isStopped
        self.ended = ended
    }

    func start() {
        worker.lane.post { [self] in work(.heat(0), vBuckets[...], after: .zero) }
    }

    // MARK: On a reader lane

    private func work(_ pass: Pass, _ left: ArraySlice<VBucketID>, after: Seqno) {
        guard !isStopped(), engine.account.bytes < engine.account.lowWatermark,
            let id = left.first
        else { return ended() }
        do throws(StorageError) {
            let next = try load(pass, id, after)
            worker.lane.post { [self] in
                if let next {
                    work(pass, left, after: next)
                } else {
                    advance(pass, left.dropFirst())
                }
            }
        } catch {
            ended()
            // The documents are asked for one by one then, and each gets its own answer.
            guard error.code != .gone, !isStopped() else { return }
            environment.trace.error("warmup", "bucket \(engine.name): \(error.description)")
        }
    }

    private func advance(_ pass: Pass, _ rest: ArraySlice<VBucketID>) {
        if !rest.isEmpty { return work(pass, rest, after: .zero) }
        switch pass {
        case .heat(let index) where index < 2: work(.heat(index + 1), vBuckets[...], after: .zero)
        case .heat: work(.rest, vBuckets[...], after: .zero)
        case .rest: ended()
        }
    }

    /// Loads a slice of one vBucket; returns where to go on in it.
    private func load(
        _ pass: Pass,
        _ id: VBucketID,
        _ after: Seqno
    ) throws(StorageError) -> Seqno? {
        guard let vBucket = engine[id.number] else { return nil }
        var wanted: Set<Seqno>?
        var frequency: UInt8 = 0
        if case .heat(let index) = pass {
            frequency = Heat.floors[index]
            guard let bytes = try lane.loadHeat(id),
                let heat = bytes.withUnsafeBytes({ Heat(ByteView($0)) }),
                !heat.classes[index].isEmpty
            else { return nil }
            wanted = Set(heat.classes[index])
        }
        let turn = worker.context.turn(environment.time.wallNanoseconds())
        let last = vBucket.withCore { $0.persistedSeqno }
        return try lane.scanDocuments(
            id,
            after: after,
            through: last,
            bytesMax: ValueWarmup.sliceBytes
        ) { meta, key, value in
            if wanted?.contains(meta.seqno) == false || meta.isDeleted { return true }
            let hash = engine.hash(key)
            vBucket.withCore { core in
                if !core.install(value, of: meta.seqno, key: key, hash: hash, turn) {
                    // Or all of it had left.
                    core.restore(meta, key: key, valueCount: value.count, value: value, turn)
                }
                if wanted != nil { core.warm(key, hash: hash, to: frequency) }
            }
            return engine.account.bytes < engine.account.lowWatermark
        }
    }
}
