internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary

/// Reading a lane file, on its reader lane.
extension Warmup {
    /// The blocks of one step; other work of the reader lane can run between steps.
    private static let blocksPerStep = 64

    /// vBuckets of one lane file that are loaded one by one.
    struct Round {
        let vBuckets: [VBucketID]
        var loaded = 0
        /// Keys and metadata alone exceed memory: each vBucket is ejected before the next one is
        /// loaded.
        var isTight = false
        /// The delay of the retry of failed vBuckets, in nanoseconds.
        var pause = Warmup.pauseMin
        /// The values of the whole lane file follow, not only those of retried vBuckets.
        var isFirst = true
    }

    /// Continues in file order, unless a request waits for one vBucket.
    func step(_ lane: LaneStore, _ position: ScanPosition, on worker: DataLanes.Worker) {
        guard !isStopped, loadRequested(lane, worker.context) else { return }
        if isTight { return beginOneByOne(lane, worker, isTight: true) }
        do throws(StorageError) {
            guard let next = try scan(lane, position, in: worker.context) else {
                return endAll(lane, worker)
            }
            worker.lane.post { [self] in step(lane, next, on: worker) }
        } catch {
            guard canContinue(lane, after: error) else { return }
            let what = "bucket \(parts.engine.name): \(error.description)"
            parts.environment.trace.warning(
                "warmup",
                bucket: parts.engine.name,
                "\(what); its vBuckets are read one by one"
            )
            beginOneByOne(lane, worker, isTight: false)
        }
    }

    private func scan(
        _ lane: LaneStore,
        _ position: ScanPosition,
        in context: LaneContext
    ) throws(StorageError) -> ScanPosition? {
        try lane.scanMetadata(from: position, blocksMax: Warmup.blocksPerStep) { id, cursor in
            // A failed vBucket lost what was loaded of it, and is loaded again from its beginning.
            let hasFailed = state.withLock { $0.failures[id] != nil }
            if !hasFailed { load(id, cursor, lane: lane, in: context) }
            return true
        }
    }

    /// Ends the scan of the file: complete vBuckets are served.
    private func endAll(_ lane: LaneStore, _ worker: DataLanes.Worker) {
        let left = state.withLock { state in
            state.missing.keys.filter { lane.owns($0) && state.failures[$0] == nil }.sorted()
        }
        for id in left {
            do throws(StorageError) {
                try lane.checkNoUnidentifiedBlocks(id)
                end(id, try lane.prepares(of: id), in: worker.context)
            } catch {
                guard recordFailure(id, lane, error: error) else { return }
            }
        }
        endRound(Round(vBuckets: left), lane, on: worker)
    }

    // MARK: One by one

    /// Discards partly loaded vBuckets and loads them one by one: documents can be ejected only
    /// from a completely loaded vBucket.
    ///
    /// The quota holds under `valueOnly` too, if the bucket was filled with a larger quota or
    /// another policy: what does not fit is loaded as if whole documents could be ejected.
    private func beginOneByOne(_ lane: LaneStore, _ worker: DataLanes.Worker, isTight: Bool) {
        let left = state.withLock { $0.missing.keys.filter { lane.owns($0) }.sorted() }
        for id in left {
            parts.engine[id.number]?.withCore { if !$0.isLoaded { $0.restartWarmup() } }
        }
        worker.lane.post { [self] in
            work(Round(vBuckets: left, isTight: isTight), lane, on: worker)
        }
    }

    private var isTight: Bool { parts.engine.account.isAboveHighWatermark }

    /// Loads the next vBucket of a round.
    func work(_ round: Round, _ lane: LaneStore, on worker: DataLanes.Worker) {
        guard !isStopped, loadRequested(lane, worker.context) else { return }
        guard round.loaded < round.vBuckets.count else { return endRound(round, lane, on: worker) }
        let id = round.vBuckets[round.loaded]
        guard attempt(id, lane, in: worker.context) else { return }
        var next = round
        next.loaded += 1
        next.isTight = round.isTight || isTight
        if next.isTight { evict(id, worker.context) }
        let rest = next
        worker.lane.post { [self] in work(rest, lane, on: worker) }
    }

    private func endRound(_ round: Round, _ lane: LaneStore, on worker: DataLanes.Worker) {
        if round.isFirst {
            startValues(
                lane,
                worker,
                of: parts.engine.all.map { vBucket in vBucket.withCore { $0.id } }
            )
        } else {
            let failed = state.withLock { Set($0.failures.keys) }
            let back = round.vBuckets.filter { !failed.contains($0) }
            if !back.isEmpty {
                state.withLock { $0.cold[lane.number, default: 0] += 1 }
                startValues(lane, worker, of: back)
            }
        }
        retryLater(lane, worker, after: round.pause)
    }

    /// Loads the vBuckets for which requests wait.
    ///
    /// - Returns: False if nothing of the lane file can be read any more.
    private func loadRequested(_ lane: LaneStore, _ context: LaneContext) -> Bool {
        let wanted = state.withLock { $0.wanted.removeValue(forKey: lane.number) } ?? []
        return Set(wanted).sorted().allSatisfy { attempt($0, lane, in: context) }
    }

    /// Loads one vBucket, or notes its failure.
    ///
    /// - Returns: False if nothing of the lane file can be read any more.
    private func attempt(_ id: VBucketID, _ lane: LaneStore, in context: LaneContext) -> Bool {
        do throws(StorageError) {
            try loadAlone(id, lane, in: context)
            return true
        } catch {
            return recordFailure(id, lane, error: error)
        }
    }

    /// Loads one vBucket at once from its beginning, discarding what was loaded of it.
    ///
    /// - Throws: `StorageError` if it cannot be read.
    private func loadAlone(
        _ id: VBucketID,
        _ lane: LaneStore,
        in context: LaneContext
    ) throws(StorageError) {
        guard let vBucket = parts.engine[id.number],
            vBucket.withCore({ core in
                guard !core.isLoaded else { return false }
                core.restartWarmup()
                return true
            })
        else { return }
        lane.resetLive(id)
        try lane.checkNoUnidentifiedBlocks(id)
        var place: Seqno? = .zero
        while let after = place {
            place = try lane.scanMetadata(id, after: after, blocksMax: Warmup.blocksPerStep) {
                load(id, $0, lane: lane, in: context)
                return true
            }
        }
        end(id, try lane.prepares(of: id), in: context)
    }

    /// Loads one run of a vBucket, unless the vBucket is loaded already.
    private func load(
        _ id: VBucketID,
        _ cursor: MetadataCursor,
        lane: LaneStore,
        in context: LaneContext
    ) {
        guard let vBucket = parts.engine[id.number] else { return }
        let turn = context.turn(parts.environment.time.wallNanoseconds())
        var dead: [Seqno] = []
        vBucket.withCore { core in
            guard !core.isLoaded else { return }
            while cursor.next() {
                let lost = core.load(
                    cursor.meta,
                    key: cursor.key,
                    valueCount: cursor.valueLength,
                    hash: parts.engine.hash(cursor.key),
                    turn
                )
                if let lost { dead.append(lost) }
            }
        }
        for seqno in dead { lane.markDead(id, seqno) }
    }

    private func evict(_ id: VBucketID, _ context: LaneContext) {
        var place: UInt64? = 0
        while let from = place, parts.engine.account.bytes > parts.engine.account.lowWatermark {
            let turn = context.turn(parts.environment.time.wallNanoseconds())
            place =
                parts.engine[id.number]?.withCore { core in
                    core.ejectSlice(
                        from: from,
                        groupsMax: 64,
                        threshold: .max,
                        isWhole: true,
                        turn
                    ).next
                } ?? nil
        }
    }

    // MARK: Values

    /// Starts loading values, after all readable keys are loaded.
    private func startValues(
        _ lane: LaneStore,
        _ worker: DataLanes.Worker,
        of vBuckets: [VBucketID]
    ) {
        let loaded = vBuckets.filter { id in
            lane.owns(id) && parts.engine[id.number]?.withCore { $0.isLoaded } == true
        }
        let values = ValueWarmup(
            parts,
            lane: lane,
            vBuckets: loaded,
            worker: worker,
            isStopped: { [weak self] in self?.isStopped ?? true },
            ended: { [weak self] in
                self?.state.withLock { $0.cold[lane.number, default: 1] -= 1 }
            }
        )
        values.start()
    }
}
