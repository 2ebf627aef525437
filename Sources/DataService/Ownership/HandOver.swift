internal import Bytes
internal import Engine
internal import Seams
package import Vocabulary
internal import Wire

/// Writes that wait until it is settled whose vBucket it is.
final class HandOverWaiters: Sendable {
    private struct State {
        var waiting: [VBucketID: [UInt64: @Sendable (Completion) -> Void]] = [:]
        /// Hand overs that wait for durable writes to end.
        var underWay: [VBucketID: @Sendable () -> Void] = [:]
        var lastNumber: UInt64 = 0
    }

    private let state = Guarded(State())
    /// Where the waits time out.
    private let lane: any Lane

    init(lane: any Lane) { self.lane = lane }

    /// Calls `done` once a write may be attempted again, or with a failure after
    /// `Limits.handOverMilliseconds`.
    func whenSettled(
        _ vBucket: VBucketID,
        _ engine: Bucket,
        _ done: @escaping @Sendable (Completion) -> Void
    ) {
        let number = state.withLock { state in
            state.lastNumber += 1
            state.waiting[vBucket, default: [:]][state.lastNumber] = done
            return state.lastNumber
        }
        let isSettled = engine[vBucket.number]?.withCore { !$0.ownership.isHandingOver } ?? true
        if isSettled { return settle(vBucket) }
        lane.post(after: Limits.handOverMilliseconds * 1_000_000) { [self] in
            expire(vBucket, number)
        }
    }

    /// It is settled: all ask again.
    func settle(_ vBucket: VBucketID) {
        let waiting = state.withLock { $0.waiting.removeValue(forKey: vBucket) }
        for done in (waiting ?? [:]).values { done(.ready) }
    }

    /// Has `look` called whenever a durable write of the vBucket has ended; nil for no more.
    func watch(_ vBucket: VBucketID, _ look: (@Sendable () -> Void)?) {
        state.withLock { $0.underWay[vBucket] = look }
    }

    /// A durable write of a vBucket that is being handed over has ended.
    func moved(_ vBucket: VBucketID) {
        let look = state.withLock { $0.underWay[vBucket] }
        look?()
    }

    /// A wait has timed out.
    private func expire(_ vBucket: VBucketID, _ number: UInt64) {
        let done = state.withLock { $0.waiting[vBucket]?.removeValue(forKey: number) }
        done?(.failed(.temporaryFailure, "The vBucket is being handed over: try again."))
    }
}

extension DocumentService {
    /// Has an active copy take no more writes, waits until its durable ones have ended and the chain
    /// to come has all there is, and tells how much that is.
    ///
    /// Where that takes too long the copy serves on; where durable writes held it up many times in a
    /// row, they are given no more time. Once it is drained it serves nobody: the map
    /// has to say who does, or `activate` it again.
    package func handOver(
        _ name: String,
        _ vBucket: VBucketID,
        fence: UInt64,
        _ done: @escaping @Sendable (HandOverOutcome) -> Void
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
            done
        )
        move.start(lanes)
    }
}

/// One vBucket on its way.
private final class HandOver: Sendable {
    private let bucket: OpenBucket
    private let id: VBucketID
    private let fence: UInt64
    /// Known once nothing more is written: durable writes end by a change of their own.
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
        _ done: @escaping @Sendable (HandOverOutcome) -> Void
    ) {
        self.bucket = bucket
        self.id = id
        self.fence = fence
        self.needed = needed
        self.done = done
    }

    func start(_ lanes: DataLanes) {
        let number = bucket.traffic.listen(to: id) { [self] _ in look() }
        listener.withLock { $0 = number }
        bucket.handOvers.watch(id) { [self] in look() }
        bucket.desk.handOverBegins(id)
        lanes.nonIO.lane.post(after: Limits.handOverMilliseconds * 1_000_000) { [self] in
            finish(isDrained: false)
        }
        look()
    }

    /// The last change of all, once no durable write is open.
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

    private func look() {
        guard let final = end() else { return }
        let progress = bucket.traffic.progress(of: id)
        let isDrained = needed.allSatisfy { node in
            guard let copy = progress[node] else { return false }
            return copy.fence == fence && copy.covered >= final
        }
        if isDrained { finish(isDrained: true) }
    }

    private func finish(isDrained: Bool) {
        let isFirst = isOver.withLock { isOver in
            defer { isOver = true }
            return !isOver
        }
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
        // After a restart as well: it serves, and feeds, nobody under this fence any more.
        if case .drained = outcome { bucket.disk?.noteDirty(id) }
        bucket.desk.handOverEnded(id, wasHeldUp: outcome == .busy && final == nil)
        bucket.handOvers.settle(id)
        done(outcome)
    }
}
