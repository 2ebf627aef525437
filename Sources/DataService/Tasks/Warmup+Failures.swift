internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary
internal import Wire

/// What cannot be read: told to those who wait and to the operator, and tried again.
extension Warmup {
    /// What passes by itself has often passed by then; each further pause is twice as long.
    static var pauseMin: UInt64 { 1_000_000_000 }
    /// What does not costs little when it is tried as seldom.
    private static var pauseMax: UInt64 { 60_000_000_000 }

    // MARK: On the lane's reader lane

    /// Whether anything of the lane may be read after `error`; if not, nobody waits for it any more.
    func canGoOn(_ lane: LaneStore, after error: StorageError) -> Bool {
        // Flushed or deleted meanwhile: nothing is wrong, and `stop` tells those who wait.
        guard error.code != .gone, !isStopped else { return false }
        guard let reason = lane.closedBy else { return true }
        if reason.code != .gone { close(lane, reason.description) }
        return false
    }

    /// Notes that a vBucket cannot be read now; false where nothing of the lane can be any more.
    func fail(_ id: VBucketID, _ lane: LaneStore, _ error: StorageError) -> Bool {
        guard canGoOn(lane, after: error) else { return false }
        // A part of it is of no use to anybody, nor is what it said of versions that it replaced.
        engine[id.number]?.withCore { if !$0.isLoaded { $0.restartWarmup() } }
        lane.resetLive(id)
        let waiters: [Waiter] = state.withLock { state in
            guard let waiters = state.missing[id] else { return [] }
            state.missing[id] = []
            state.failures[id] = error.description
            return waiters
        }
        show(lane)
        for waiter in waiters { waiter(.failed(.temporaryFailure, error.description)) }
        return true
    }

    /// The file is closed to everybody until the node is started again.
    private func close(_ lane: LaneStore, _ reason: String) {
        environment.trace.error("warmup", "bucket \(engine.name): \(reason)")
        let waiters: [Waiter] = state.withLock { state in
            guard !state.isStopped else { return [] }
            state.closed[lane.number] = reason
            alerts.raise(
                alertID(lane),
                "A part of bucket \(engine.name) cannot be read: \(reason)."
            )
            var waiters: [Waiter] = []
            for id in state.missing.keys.sorted() where lane.owns(id) {
                waiters += state.missing[id] ?? []
                state.missing[id] = []
            }
            return waiters
        }
        for waiter in waiters { waiter(.failed(.temporaryFailure, reason)) }
    }

    /// Has those that failed tried again; none where all were read, or given up.
    func retryLater(_ lane: LaneStore, _ worker: DataLanes.Worker, after pause: UInt64) {
        guard let (count, reason) = state.withLock({ $0.unread(of: lane) }) else {
            return show(lane)
        }
        environment.trace.error(
            "warmup",
            "bucket \(engine.name): \(vBuckets(count)) cannot be read: \(reason)"
        )
        worker.lane.post(after: pause) { [weak self] in self?.retry(lane, worker, after: pause) }
    }

    private func retry(_ lane: LaneStore, _ worker: DataLanes.Worker, after pause: UInt64) {
        let failed = state.withLock { $0.failures.keys.filter { lane.owns($0) }.sorted() }
        let next = min(2 * pause, Warmup.pauseMax)
        work(Round(vBuckets: failed, pause: next, isFirst: false), lane, worker)
    }

    // MARK: Telling

    private func vBuckets(_ count: Int) -> String {
        count == 1 ? "1 vBucket" : "\(count) vBuckets"
    }

    private func alertID(_ lane: LaneStore) -> String { "warmup/\(engine.name)/\(lane.number)" }

    private func show(_ lane: LaneStore) {
        // Under the lock: once `stop` was called, whoever comes next has this place on the board.
        state.withLock { state in
            guard !state.isStopped, state.closed[lane.number] == nil else { return }
            guard let (count, reason) = state.unread(of: lane) else {
                return alerts.clear(alertID(lane))
            }
            alerts.raise(
                alertID(lane),
                "A part of bucket \(engine.name) cannot be read "
                    + "(\(vBuckets(count))): \(reason). "
                    + "It is tried again every minute."
            )
        }
    }

    // MARK: Giving up

    /// Calls `done` once nothing of the vBucket is read any more, so that its copy can be forgotten:
    /// it is loaded, or it cannot be and counts as empty.
    ///
    /// Where it fails the file is closed, or the bucket went.
    func whenForgettable(_ vBucket: VBucketID, _ done: @escaping Waiter) {
        whenLoaded(vBucket) { [self] completion in
            guard case .failed = completion, !isStopped else { return done(completion) }
            lanes.reader(ofLane: laneNumber(vBucket)).lane.post { [self] in
                done(giveUp(vBucket) ? .ready : completion)
            }
        }
    }

    /// On the lane's reader lane: false where the copy has to stay as it is.
    private func giveUp(_ id: VBucketID) -> Bool {
        let lane = files[laneNumber(id)]
        guard !isStopped, lane.closedBy == nil, let vBucket = engine[id.number] else {
            return false
        }
        let (isLoaded, isDue) = vBucket.withCore { core in
            (core.isLoaded, core.ownership.isResetting)
        }
        if isLoaded { return true }
        guard isDue else { return false }
        vBucket.withCore { $0.restartWarmup() }
        end(id, [], nil)
        show(lane)
        return true
    }
}

extension Warmup.State {
    /// How many of the lane's vBuckets cannot be read, and why the first of them.
    fileprivate func unread(of lane: LaneStore) -> (count: Int, reason: String)? {
        let failed = failures.filter { lane.owns($0.key) }
        guard let first = failed.min(by: { $0.key < $1.key }) else { return nil }
        return (failed.count, first.value)
    }
}
