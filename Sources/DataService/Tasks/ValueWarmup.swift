internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary

/// The last pass of warmup: the values of loaded vBuckets of one lane file, hot ones first, until
/// memory reaches the low watermark.
///
/// Runs in slices on a reader lane, between background fetches. It is an optimisation: values that
/// it leaves on disk are fetched on request.
final class ValueWarmup: Sendable {
    private enum Pass {
        /// The documents of a class of heat.
        case heat(Int)
        /// All remaining values.
        case rest
    }

    private let parts: BucketParts
    private let lane: LaneStore
    private let vBuckets: [VBucketID]
    private let worker: DataLanes.Worker
    private let isStopped: @Sendable () -> Bool
    /// Called once, at the end.
    private let ended: @Sendable () -> Void

    private static let sliceBytes = 4 << 20

    init(
        _ parts: BucketParts,
        lane: LaneStore,
        vBuckets: [VBucketID],
        worker: DataLanes.Worker,
        isStopped: @escaping @Sendable () -> Bool,
        ended: @escaping @Sendable () -> Void
    ) {
        self.parts = parts
        self.lane = lane
        self.vBuckets = vBuckets
        self.worker = worker
        self.isStopped = isStopped
        self.ended = ended
    }

    func start() {
        worker.lane.post { [self] in work(.heat(0), vBuckets[...], after: .zero) }
    }

    // MARK: On a reader lane

    private func work(_ pass: Pass, _ left: ArraySlice<VBucketID>, after: Seqno) {
        guard !isStopped(), parts.engine.account.bytes < parts.engine.account.lowWatermark,
            let id = left.first
        else { return ended() }
        do throws(StorageError) {
            let next = try load(pass, id, after: after)
            worker.lane.post { [self] in
                if let next {
                    work(pass, left, after: next)
                } else {
                    advance(pass, left.dropFirst())
                }
            }
        } catch {
            ended()
            // Requests then fetch documents one by one, and each gets its own error.
            guard error.code != .gone, !isStopped() else { return }
            parts.report("warmup", error.description)
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

    /// Loads a slice of one vBucket.
    ///
    /// - Returns: The position to continue after; nil at its end.
    /// - Throws: `StorageError` if the slice cannot be read.
    private func load(
        _ pass: Pass,
        _ id: VBucketID,
        after: Seqno
    ) throws(StorageError) -> Seqno? {
        guard let vBucket = parts.engine[id.number] else { return nil }
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
        let turn = worker.context.turn(parts.environment.time.wallNanoseconds())
        let reading = DiskReading(of: vBucket)
        let last = vBucket.withCore { $0.persistedSeqno }
        return try lane.scanDocuments(
            id,
            after: after,
            through: last,
            bytesMax: ValueWarmup.sliceBytes
        ) { meta, key, value in
            if wanted?.contains(meta.seqno) == false || (meta.isDeleted && value.isEmpty) {
                return true
            }
            let hash = parts.engine.hash(key)
            let filled: Void? = reading.fill { core in
                let isHere = core.install(value, of: meta.seqno, key: key, hash: hash, turn)
                // A tombstone that is a stub stays one: it is hardly ever read.
                if !isHere, !meta.isDeleted {
                    // The whole document had been ejected.
                    core.restore(meta, key: key, valueCount: value.count, value: value, turn)
                }
                if wanted != nil { core.warm(key, hash: hash, to: frequency) }
            }
            return filled != nil && parts.engine.account.bytes < parts.engine.account.lowWatermark
        }
    }
}
