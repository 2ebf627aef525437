internal import Bytes
internal import Engine
internal import Replication
internal import Seams
internal import Vocabulary

/// The outcome of a durable write for the waiting client.
enum SyncWriteOutcome: Sendable {
    /// The write is visible to all clients.
    case committed(cas: CAS, seqno: Seqno, uuid: VBucketUUID, number: UInt64)
    /// The write may become visible later, or never.
    case ambiguous
}

/// Completes the durable writes of a bucket: a `DurabilityMonitor` for each vBucket that has some,
/// its inputs, and the execution of its decisions.
///
/// `enter` adds a prepared write. Acknowledgements, commits of the flusher, maps and deadlines
/// schedule a pass over the vBucket on the lane `durability`. A timer runs only while a write
/// waits.
///
/// - A vBucket's monitor is changed only under that vBucket's lock, so that decisions are carried
///   out in order. This type's own lock is acquired inside it, and held for moments.
/// - Each client is answered once.
final class SyncWriteService: Sendable {
    /// Durable writes since the bucket was opened.
    struct Statistics: Hashable, Sendable {
        var accepted: UInt64 = 0
        var committed: UInt64 = 0
        var aborted: UInt64 = 0
        /// Answered as ambiguous: the timeout passed, or another node decides.
        var ambiguous: UInt64 = 0
    }

    /// Gets the outcome, and what the write waited for last: `disk` or `replicate`.
    typealias Answer = @Sendable (SyncWriteOutcome, CommandPhase) -> Void

    /// When a write was prepared, and by when it has to be decided, in monotonic nanoseconds.
    struct Times {
        let prepared: UInt64
        let deadline: UInt64
    }

    /// The client of a durable write.
    struct Client {
        /// The number in the answer to a counter command.
        let number: UInt64
        let level: DurabilityLevel
        let times: Times
        /// Nil until the client has registered its completion handler.
        var answer: Answer?
        /// The outcome, if it preceded the completion handler.
        var end: SyncWriteOutcome?
        /// The last cause of its wait, once there is an outcome.
        var cause = CommandPhase.replicate
    }

    struct Slot {
        var monitor = DurabilityMonitor()
        var clients: [Seqno: Client] = [:]
        /// Prepares after the seqno where a promotion began its history.
        var voids: Set<Seqno> = []
        /// The monitor's prepares may differ from the vBucket's.
        var isStale = true
        /// A fetch is outstanding, without which the next prepare cannot be completed.
        var isFetching = false
        /// The persisted seqno before the present pass over the vBucket.
        var onDiskBefore = Seqno(0)
        /// The number of consecutive hand overs that durable writes delayed.
        var heldUp = 0
    }

    struct State {
        var slots: [VBucketID: Slot] = [:]
        var due: Set<VBucketID> = []
        var isPosted = false
        var timerDue: UInt64?
        var isStopped = false
        var statistics = Statistics()
    }

    /// The parts of the bucket that durable writes need.
    struct Dependencies: Sendable {
        let engine: Bucket
        let disk: BucketDisk?
        let counters: TrafficCounters
        let traffic: ChangeTraffic
        let handOvers: HandOverWaiters
        let worker: DataLanes.Worker
        let environment: Environment
        /// The map's entry of a vBucket, and this node's number; nil without a map.
        let assignment: @Sendable (VBucketID) -> (VBucketAssignment, own: NodeNumber)?
    }

    /// The timeout of writes that do not state one.
    static let timeoutMilliseconds: UInt64 = 10_000
    /// The number of hand overs that durable writes may delay before their timeouts are expired.
    static let handOversMax = 10
    /// The most replicas with which durable writes are possible: with more, a majority does not
    /// determine which copies have a write.
    static let replicasMax = 2

    let around: Dependencies
    let state = Guarded(State())

    init(_ dependencies: Dependencies) { around = dependencies }

    var statistics: Statistics { state.withLock { $0.statistics } }

    // MARK: Registration

    /// The times of a write that is prepared now.
    func times(withinMilliseconds timeout: UInt64) -> Times {
        let now = around.environment.time.monotonicNanoseconds()
        return Times(prepared: now, deadline: now &+ timeout * 1_000_000)
    }

    /// Registers a write that was just prepared.
    ///
    /// Called under the vBucket's lock.
    func enter(
        _ stored: Stored,
        _ level: DurabilityLevel,
        times: Times,
        of vBucket: VBucketID
    ) {
        listen(to: vBucket)
        state.withLock { state in
            state.statistics.accepted += 1
            state.slots[vBucket]?.monitor.enter(stored.seqno, level, deadline: times.deadline)
            state.slots[vBucket]?.clients[stored.seqno] = Client(
                number: stored.number,
                level: level,
                times: times
            )
        }
    }

    /// Registers the completion handler of a prepared write.
    ///
    /// Called without the vBucket's lock.
    func wait(for seqno: Seqno, of vBucket: VBucketID, _ answer: @escaping Answer) {
        let found: (client: Client, end: SyncWriteOutcome?)? = state.withLock { state in
            guard var client = state.slots[vBucket]?.clients[seqno] else { return nil }
            client.answer = answer
            let end = client.end ?? (state.isStopped ? .ambiguous : nil)
            state.slots[vBucket]?.clients[seqno] = end == nil ? client : nil
            return (client, end)
        }
        guard let found else { return answer(.ambiguous, .replicate) }
        if let end = found.end { return answer(end, found.client.cause) }
        if found.client.level.needsDisk { around.disk?.flushNow(vBucket) }
        schedulePass(over: vBucket)
        setTimer(for: found.client.times.deadline)
    }

    /// Creates the vBucket's slot, and listens to its events, unless it exists.
    func listen(to vBucket: VBucketID) {
        let isNew = state.withLock { state in
            guard state.slots[vBucket] == nil else { return false }
            state.slots[vBucket] = Slot()
            return true
        }
        guard isNew else { return }
        _ = around.traffic.listen(to: vBucket) { [weak self] news in
            switch news {
            case .acknowledged, .persisted: self?.schedulePassIfAwaited(of: vBucket)
            case .changed, .ownership, .retired: break
            }
        }
    }

    private func schedulePassIfAwaited(of vBucket: VBucketID) {
        let isAwaited = state.withLock { $0.slots[vBucket].map { !$0.monitor.isEmpty } ?? false }
        if isAwaited { schedulePass(over: vBucket) }
    }

    // MARK: Changes of ownership

    /// The active copy of the vBuckets may have changed, or their prepares.
    func ownershipChanged(_ vBuckets: some Sequence<VBucketID>) {
        for vBucket in vBuckets {
            let isKnown = state.withLock { state in
                state.slots[vBucket]?.isStale = true
                return state.slots[vBucket] != nil
            }
            let hasPrepares = around.engine[vBucket.number]?.withCore { $0.hasPrepares } ?? false
            if isKnown || hasPrepares { schedulePass(over: vBucket) }
        }
    }

    /// The chains whose acknowledgements count may have changed.
    func mapChanged() {
        let waiting = state.withLock { state in
            state.slots.filter { !$0.value.monitor.isEmpty }.keys.sorted()
        }
        for vBucket in waiting { schedulePass(over: vBucket) }
    }

    /// Voids prepares after the seqno where a promotion began its history.
    ///
    /// Called under the vBucket's lock.
    func void(_ prepares: [Seqno], of vBucket: VBucketID) {
        guard !prepares.isEmpty else { return }
        listen(to: vBucket)
        state.withLock { state in
            state.slots[vBucket]?.voids.formUnion(prepares)
            state.slots[vBucket]?.isStale = true
        }
    }

    /// A hand over begins and waits for durable writes.
    ///
    /// After `handOversMax` delayed ones in a row, expires their timeouts.
    func handOverBegins(_ vBucket: VBucketID) {
        let isLast = state.withLock { state in
            (state.slots[vBucket]?.heldUp ?? 0) >= SyncWriteService.handOversMax
        }
        guard isLast, let handle = around.engine[vBucket.number] else { return }
        handle.withCore { _ in
            state.withLock { $0.slots[vBucket]?.monitor.expireDeadlines() }
        }
        schedulePass(over: vBucket)
    }

    /// A hand over ended.
    func handOverEnded(_ vBucket: VBucketID, wasHeldUp: Bool) {
        state.withLock { state in
            let before = state.slots[vBucket]?.heldUp ?? 0
            state.slots[vBucket]?.heldUp = wasHeldUp ? before + 1 : 0
        }
    }

    /// The bucket closes: answers all clients as ambiguous.
    func stop() {
        let answers = state.withLock { state in
            state.isStopped = true
            let clients = state.slots.values.flatMap(\.clients.values)
            state.slots = state.slots.mapValues { _ in Slot() }
            state.statistics.ambiguous += UInt64(clients.count)
            return clients.compactMap(\.answer)
        }
        for answer in answers { answer(.ambiguous, .replicate) }
    }
}

extension SyncWriteOutcome {
    static func committed(_ stored: Stored) -> SyncWriteOutcome {
        .committed(cas: stored.cas, seqno: stored.seqno, uuid: stored.uuid, number: 0)
    }

    /// The same outcome with the number of a counter's answer.
    func withNumber(_ number: UInt64) -> SyncWriteOutcome {
        guard case .committed(let cas, let seqno, let uuid, _) = self else { return self }
        return .committed(cas: cas, seqno: seqno, uuid: uuid, number: number)
    }
}
