internal import Bytes
internal import Engine
internal import Replication
internal import Seams
internal import Vocabulary
internal import Wire

/// How a durable write ended, as far as whoever waits for it is concerned.
enum DurableEnd: Sendable {
    /// Everybody sees it.
    case committed(cas: CAS, seqno: Seqno, uuid: VBucketUUID, number: UInt64)
    /// It may be seen some day, or never.
    case ambiguous
}

/// Where the durable writes of a bucket wait: a `DurabilityBook` for each vBucket that has some, fed
/// with what copies say, and what it decides carried out.
///
/// Whoever prepares enters the write; acknowledgements, commits of the flusher, maps and deadlines
/// have the vBucket looked at, on the lane `durability`. A timer runs only while something waits.
///
/// - A vBucket's book is changed under that vBucket's lock only, so that what it decides is carried
///   out in its order; this desk's own lock is taken inside and held for moments.
/// - Whoever waits is answered once.
final class DurabilityDesk: Sendable {
    /// Durable writes since the bucket was opened.
    struct Statistics: Hashable, Sendable {
        var accepted: UInt64 = 0
        var committed: UInt64 = 0
        var aborted: UInt64 = 0
        /// Answered so: their time was over, or another node decides.
        var ambiguous: UInt64 = 0
    }

    typealias Answer = @Sendable (DurableEnd) -> Void

    /// Somebody who asked for a durable write.
    struct Client {
        /// What the answer of a counter says.
        let number: UInt64
        let level: DurabilityLevel
        let deadline: UInt64
        /// Nil until he has come to wait.
        var answer: Answer?
        /// It ended before he came.
        var end: DurableEnd?
    }

    struct Slot {
        var book = DurabilityBook()
        var clients: [Seqno: Client] = [:]
        /// Prepares that a promotion left behind its beginning.
        var voids: Set<Seqno> = []
        /// The book may have others than the vBucket has.
        var isStale = true
        /// The next one cannot be completed before something is read, and that was asked for.
        var isFetching = false
        /// Hand overs in a row that durable writes held up.
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

    /// What the desk needs of its bucket.
    struct Surroundings: Sendable {
        let engine: Bucket
        let disk: BucketDisk?
        let traffic: ChangeTraffic
        let handOvers: HandOverWaiters
        let worker: DataLanes.Worker
        let environment: Environment
        /// What the map says of a vBucket, and which node this is; nil without a map.
        let assignment: @Sendable (VBucketID) -> (VBucketAssignment, own: NodeNumber)?
    }

    /// Of writes that do not say how long they may take.
    static let timeoutMilliseconds: UInt64 = 10_000
    /// Hand overs that durable writes may hold up before they are given no more time.
    static let handOversMax = 10
    /// With more, a majority of copies says nothing about which ones.
    static let replicasMax = 2

    let around: Surroundings
    let state = Guarded(State())

    init(_ surroundings: Surroundings) { around = surroundings }

    var statistics: Statistics { state.withLock { $0.statistics } }

    // MARK: Entering

    /// The monotonic nanoseconds at which a write that is prepared now has to be decided.
    func deadline(afterMilliseconds timeout: UInt64) -> UInt64 {
        around.environment.time.monotonicNanoseconds() &+ timeout * 1_000_000
    }

    /// Notes what was just prepared; under the vBucket's lock.
    func enter(
        _ stored: Stored,
        _ level: DurabilityLevel,
        deadline: UInt64,
        of vBucket: VBucketID
    ) {
        listen(to: vBucket)
        state.withLock { state in
            state.statistics.accepted += 1
            state.slots[vBucket]?.book.enter(stored.seqno, level, deadline: deadline)
            state.slots[vBucket]?.clients[stored.seqno] = Client(
                number: stored.number,
                level: level,
                deadline: deadline
            )
        }
    }

    /// Has whoever prepared it wait; after the vBucket's lock was released.
    func wait(for seqno: Seqno, of vBucket: VBucketID, _ answer: @escaping Answer) {
        let found: (client: Client, end: DurableEnd?)? = state.withLock { state in
            guard var client = state.slots[vBucket]?.clients[seqno] else { return nil }
            client.answer = answer
            let end = client.end ?? (state.isStopped ? .ambiguous : nil)
            state.slots[vBucket]?.clients[seqno] = end == nil ? client : nil
            return (client, end)
        }
        guard let found else { return answer(.ambiguous) }
        if let end = found.end { return answer(end) }
        if found.client.level.needsDisk { around.disk?.flushNow(vBucket) }
        look(at: vBucket)
        setTimer(for: found.client.deadline)
    }

    /// Makes a slot where there is none, and hears of its vBucket from then on.
    func listen(to vBucket: VBucketID) {
        let isNew = state.withLock { state in
            guard state.slots[vBucket] == nil else { return false }
            state.slots[vBucket] = Slot()
            return true
        }
        guard isNew else { return }
        _ = around.traffic.listen(to: vBucket) { [weak self] news in
            switch news {
            case .acknowledged, .persisted: self?.hear(of: vBucket)
            case .changed, .ownership, .retired: break
            }
        }
    }

    private func hear(of vBucket: VBucketID) {
        let isAwaited = state.withLock { $0.slots[vBucket].map { !$0.book.isEmpty } ?? false }
        if isAwaited { look(at: vBucket) }
    }

    // MARK: What changes who decides

    /// Who serves the vBucket may be another one, or its prepares others.
    func ownershipChanged(_ vBuckets: some Sequence<VBucketID>) {
        for vBucket in vBuckets {
            let isKnown = state.withLock { state in
                state.slots[vBucket]?.isStale = true
                return state.slots[vBucket] != nil
            }
            let hasPrepares = around.engine[vBucket.number]?.withCore { $0.hasPrepares } ?? false
            if isKnown || hasPrepares { look(at: vBucket) }
        }
    }

    /// The map may say something else of whom to wait for.
    func mapChanged() {
        let waiting = state.withLock { state in
            state.slots.filter { !$0.value.book.isEmpty }.keys.sorted()
        }
        for vBucket in waiting { look(at: vBucket) }
    }

    /// A promotion began a history before these; under the vBucket's lock.
    func void(_ prepares: [Seqno], of vBucket: VBucketID) {
        guard !prepares.isEmpty else { return }
        listen(to: vBucket)
        state.withLock { state in
            state.slots[vBucket]?.voids.formUnion(prepares)
            state.slots[vBucket]?.isStale = true
        }
    }

    /// A hand over begins, and waits for the durable writes; the last of many ends them.
    func handOverBegins(_ vBucket: VBucketID) {
        let isLast = state.withLock { state in
            (state.slots[vBucket]?.heldUp ?? 0) >= DurabilityDesk.handOversMax
        }
        guard isLast, let handle = around.engine[vBucket.number] else { return }
        handle.withCore { _ in
            state.withLock { $0.slots[vBucket]?.book.endPatience() }
        }
        look(at: vBucket)
    }

    /// It ended, and durable writes held it up or did not.
    func handOverEnded(_ vBucket: VBucketID, wasHeldUp: Bool) {
        state.withLock { state in
            let before = state.slots[vBucket]?.heldUp ?? 0
            state.slots[vBucket]?.heldUp = wasHeldUp ? before + 1 : 0
        }
    }

    /// The bucket goes: whoever waits is told that nobody knows.
    func stop() {
        let answers = state.withLock { state in
            state.isStopped = true
            let clients = state.slots.values.flatMap(\.clients.values)
            state.slots = state.slots.mapValues { _ in Slot() }
            state.statistics.ambiguous += UInt64(clients.count)
            return clients.compactMap(\.answer)
        }
        for answer in answers { answer(.ambiguous) }
    }
}

extension DurableEnd {
    static func committed(_ stored: Stored) -> DurableEnd {
        .committed(cas: stored.cas, seqno: stored.seqno, uuid: stored.uuid, number: 0)
    }

    /// With the number that a counter's answer has.
    func numbered(_ number: UInt64) -> DurableEnd {
        guard case .committed(let cas, let seqno, let uuid, _) = self else { return self }
        return .committed(cas: cas, seqno: seqno, uuid: uuid, number: number)
    }
}
