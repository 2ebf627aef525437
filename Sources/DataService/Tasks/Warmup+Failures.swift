internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary
internal import Wire

/// Failed reads: reported to the waiting requests and to the operator, and retried.
extension Warmup {
    /// The first delay: many failures are over by then.
    ///
    /// Each further delay is twice as long.
    static var pauseMin: UInt64 { 1_000_000_000 }
    /// The longest delay: retries of a lasting failure cost little.
    private static var pauseMax: UInt64 { 60_000_000_000 }

    // MARK: On the lane's reader lane

    /// Whether the lane file can still be read after `error`; if not, its waiters are failed.
    func canContinue(_ lane: LaneStore, after error: StorageError) -> Bool {
        // If the bucket was flushed or deleted, this is no error, and `stop` fails the waiters.
        guard error.code != .gone, !isStopped else { return false }
        guard let reason = lane.closedBy else { return true }
        if reason.code != .gone { close(lane, reason.description) }
        return false
    }

    /// Notes that a vBucket cannot be read now.
    ///
    /// - Returns: False if nothing of the lane file can be read any more.
    func recordFailure(_ id: VBucketID, _ lane: LaneStore, error: StorageError) -> Bool {
        guard canContinue(lane, after: error) else { return false }
        // A part of a vBucket is useless, and so are the versions that it marked as dead.
        parts.engine[id.number]?.withCore { if !$0.isLoaded { $0.restartWarmup() } }
        lane.resetLive(id)
        let waiters: [Waiter] = state.withLock { state in
            guard let waiters = state.missing[id] else { return [] }
            state.missing[id] = []
            state.failures[id] = error.description
            return waiters
        }
        updateAlert(lane)
        for waiter in waiters { waiter(.failed(.temporaryFailure, error.description)) }
        return true
    }

    /// Notes that the file is closed until the node restarts.
    private func close(_ lane: LaneStore, _ reason: String) {
        parts.report("warmup", reason)
        let waiters: [Waiter] = state.withLock { state in
            guard !state.isStopped else { return [] }
            state.closed[lane.number] = reason
            parts.alerts.raise(
                alertID(lane),
                "A part of bucket \(parts.engine.name) cannot be read: \(reason)."
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

    /// Schedules a retry of failed vBuckets, if there are any.
    func retryLater(_ lane: LaneStore, _ worker: DataLanes.Worker, after pause: UInt64) {
        guard let (count, reason) = state.withLock({ $0.unread(of: lane) }) else {
            return updateAlert(lane)
        }
        parts.report("warmup", "\(vBuckets(count)) cannot be read: \(reason)")
        worker.lane.post(after: pause) { [weak self] in self?.retry(lane, worker, after: pause) }
    }

    private func retry(_ lane: LaneStore, _ worker: DataLanes.Worker, after pause: UInt64) {
        let failed = state.withLock { $0.failures.keys.filter { lane.owns($0) }.sorted() }
        let next = min(2 * pause, Warmup.pauseMax)
        work(Round(vBuckets: failed, pause: next, isFirst: false), lane, on: worker)
    }

    // MARK: Alerts

    private func vBuckets(_ count: Int) -> String {
        count == 1 ? "1 vBucket" : "\(count) vBuckets"
    }

    private func alertID(_ lane: LaneStore) -> String {
        "warmup/\(parts.engine.name)/\(lane.number)"
    }

    private func updateAlert(_ lane: LaneStore) {
        // Under the lock: after `stop`, the bucket's successor owns this alert.
        state.withLock { state in
            guard !state.isStopped, state.closed[lane.number] == nil else { return }
            guard let (count, reason) = state.unread(of: lane) else {
                return parts.alerts.clear(alertID(lane))
            }
            parts.alerts.raise(
                alertID(lane),
                "A part of bucket \(parts.engine.name) cannot be read "
                    + "(\(vBuckets(count))): \(reason). "
                    + "The read is retried every minute."
            )
        }
    }

    // MARK: Giving up

    /// Calls `done` once nothing of the vBucket is being read, so that its copy can be dropped: it
    /// is loaded, or it cannot be and counts as empty.
    ///
    /// Fails if the file is closed or the bucket closes.
    func whenForgettable(_ vBucket: VBucketID, _ done: @escaping Waiter) {
        whenLoaded(vBucket) { [self] completion in
            guard case .failed = completion, !isStopped else { return done(completion) }
            parts.lanes.reader(ofLane: laneNumber(vBucket)).lane.post { [self] in
                done(abandon(vBucket) ? .ready : completion)
            }
        }
    }

    /// On the lane file's reader lane.
    ///
    /// - Returns: False if the copy has to stay.
    private func abandon(_ id: VBucketID) -> Bool {
        let lane = files[laneNumber(id)]
        guard !isStopped, lane.closedBy == nil, let vBucket = parts.engine[id.number] else {
            return false
        }
        let (isLoaded, isDue) = vBucket.withCore { core in
            (core.isLoaded, core.ownership.isResetting)
        }
        if isLoaded { return true }
        guard isDue else { return false }
        vBucket.withCore { $0.restartWarmup() }
        end(id, [], in: nil)
        updateAlert(lane)
        return true
    }
}

extension Warmup.State {
    /// The number of the lane file's unreadable vBuckets, and the error of the first; nil without
    /// any.
    fileprivate func unread(of lane: LaneStore) -> (count: Int, reason: String)? {
        let failed = failures.filter { lane.owns($0.key) }
        guard let first = failed.min(by: { $0.key < $1.key }) else { return nil }
        return (failed.count, first.value)
    }
}
