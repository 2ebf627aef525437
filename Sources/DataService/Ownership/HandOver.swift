internal import Bytes
internal import Engine
internal import Seams
package import Vocabulary
internal import Wire

/// Writes to a vBucket in hand over, which wait for its outcome.
final class HandOverWaiters: Sendable {
    private struct State {
        var waiting: [VBucketID: [UInt64: @Sendable (Completion) -> Void]] = [:]
        /// The callbacks of hand overs that wait for durable writes to complete.
        var underWay: [VBucketID: @Sendable () -> Void] = [:]
        var lastNumber: UInt64 = 0
    }

    private let state = Guarded(State())
    /// The lane of the timeouts.
    private let lane: any Lane

    init(lane: any Lane) { self.lane = lane }

    /// Calls `done` when the write may be retried, or with a failure after
    /// `Limits.handOverMilliseconds`.
    func whenHandedOver(
        _ vBucket: VBucketID,
        _ engine: Bucket,
        done: @escaping @Sendable (Completion) -> Void
    ) {
        let number = state.withLock { state in
            state.lastNumber += 1
            state.waiting[vBucket, default: [:]][state.lastNumber] = done
            return state.lastNumber
        }
        let isSettled = engine[vBucket.number]?.withCore { !$0.ownership.isHandingOver } ?? true
        if isSettled { return resume(vBucket) }
        lane.post(after: Limits.handOverMilliseconds * 1_000_000) { [self] in
            expire(vBucket, number)
        }
    }

    /// Resumes the waiting writes of a vBucket, which then retry.
    func resume(_ vBucket: VBucketID) {
        let waiting = state.withLock { $0.waiting.removeValue(forKey: vBucket) }
        for done in (waiting ?? [:]).values { done(.ready) }
    }

    /// Registers `notify` for completed durable writes of the vBucket; nil removes it.
    func watch(_ vBucket: VBucketID, _ notify: (@Sendable () -> Void)?) {
        state.withLock { $0.underWay[vBucket] = notify }
    }

    /// Notifies the hand over of a vBucket that a durable write completed.
    func notifyCompleted(_ vBucket: VBucketID) {
        let notify = state.withLock { $0.underWay[vBucket] }
        notify?()
    }

    /// A wait has timed out.
    private func expire(_ vBucket: VBucketID, _ number: UInt64) {
        let done = state.withLock { $0.waiting[vBucket]?.removeValue(forKey: number) }
        done?(.failed(.temporaryFailure, "The vBucket is being handed over. Retry."))
    }
}

extension DocumentService {
    /// Stops the writes of an active copy, waits until its durable writes are completed and the
    /// next chain has every change, and reports the last seqno.
    ///
    /// If that takes too long, the copy serves again. If durable writes delayed the hand over many
    /// times in a row, their timeouts are expired. After a drained hand over no copy serves: the
    /// map has to name the next active one, or `activate` has to resume this one.
    package func handOver(
        _ name: String,
        _ vBucket: VBucketID,
        fence: UInt64,
        done: @escaping @Sendable (HandOverOutcome) -> Void
    ) {
        guard let bucket = bucket(named: name), let own = membership.withLock({ $0.own }),
            let entry = bucket.assignment?[vBucket], entry.fence == fence,
            let handle = bucket.engine[vBucket.number]
        else { return done(.refused) }
        let chain = entry.nextChain.isEmpty ? entry.chain : entry.nextChain
        let isBegun = handle.withCore { core in
            guard core.feeds(fence), core.isLoaded, !core.ownership.isHandingOver else {
                return false
            }
            core.beginHandOver()
            return true
        }
        guard isBegun else { return done(.refused) }
        let move = HandOver(
            bucket,
            vBucket,
            fence: fence,
            needed: chain.filter { $0 != own },
            done: done
        )
        move.start(lanes)
    }
}

/// The hand over of one vBucket.
private final class HandOver: Sendable {
    private let bucket: OpenBucket
    private let id: VBucketID
    private let fence: UInt64
    /// The last seqno; nil while durable writes are open, since each ends with a change of its own.
    private let final = Guarded<Seqno?>(nil)
    private let needed: [NodeNumber]
    private let done: @Sendable (HandOverOutcome) -> Void
    private let listener = Guarded<UInt64?>(nil)
    private let isOver = Guarded(false)

    init(
        _ bucket: OpenBucket,
        _ id: VBucketID,
        fence: UInt64,
        needed: [NodeNumber],
        done: @escaping @Sendable (HandOverOutcome) -> Void
    ) {
        self.bucket = bucket
        self.id = id
        self.fence = fence
        self.needed = needed
        self.done = done
    }

    func start(_ lanes: DataLanes) {
        let number = bucket.traffic.listen(to: id) { [self] _ in checkProgress() }
        listener.withLock { $0 = number }
        bucket.handOvers.watch(id) { [self] in checkProgress() }
        bucket.syncWrites.handOverBegins(id)
        lanes.nonIO.lane.post(after: Limits.handOverMilliseconds * 1_000_000) { [self] in
            finish(isDrained: false)
        }
        checkProgress()
    }

    /// The last seqno; nil while a durable write is open.
    private func end() -> Seqno? {
        bucket.engine[id.number]?.withCore { core in
            guard core.feeds(fence), core.ownership.isHandingOver, !core.hasPrepares else {
                return nil
            }
            return final.withLock { final in
                if final == nil { final = core.highSeqno }
                return final
            }
        } ?? nil
    }

    private func checkProgress() {
        guard let final = end() else { return }
        let progress = bucket.traffic.progress(of: id)
        let isDrained = needed.allSatisfy { node in
            guard let copy = progress[node] else { return false }
            return copy.fence == fence && copy.covered >= final
        }
        if isDrained { finish(isDrained: true) }
    }

    private func finish(isDrained: Bool) {
        let isFirst = isOver.withLock { !exchange(&$0, with: true) }
        guard isFirst else { return }
        listener.withLock { if let number = $0 { bucket.traffic.ignore(id, number) } }
        bucket.handOvers.watch(id, nil)
        let final = final.withLock { $0 }
        let outcome: HandOverOutcome =
            bucket.engine[id.number]?.withCore { core in
                guard core.feeds(fence), core.ownership.isHandingOver else { return .refused }
                core.endHandOver(isDrained: isDrained)
                guard isDrained, let final else { return .busy }
                return .drained(final)
            } ?? .refused
        // Persisted, since the copy must not serve or feed under this fence after a restart either.
        if case .drained = outcome { bucket.disk?.markDirty(id) }
        bucket.syncWrites.handOverEnded(id, wasHeldUp: outcome == .busy && final == nil)
        bucket.handOvers.resume(id)
        done(outcome)
    }
}
