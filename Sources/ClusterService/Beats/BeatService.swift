internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary

/// What beats need to know of this node's member of the Raft group; called on the control lane.
struct BeatSources {
    /// The other nodes of the cluster, whatever their membership.
    var others: () -> [NodeNumber]
    var applied: () -> UInt64
    /// The newest configuration in this node's log, and the one before while that one is not known to
    /// be committed.
    var voters: () -> (newest: LeaseVoters, agreed: LeaseVoters?)
    /// Something in this node's log takes writing from it and is not applied.
    var isDeposed: () -> Bool
    /// Every bucket can serve.
    var isReady: () -> Bool
    /// Promises, or says why not.
    var answer: (LeaseBeat) -> LeaseReply
    /// How far this node is in what it serves, by the UUIDs of buckets.
    var served: () -> [String: ServedHighs]
    /// Until when this node may answer for what it owns; 0 for not at all, `.max` for ever.
    var leaseChanged: (UInt64) -> Void
}

/// "I am here": to every node, ten times a second; and what comes of it, this node's own lease and
/// the table of who is heard.
///
/// - Belongs to the control lane.
/// - A lone node sends nothing, and nothing wakes it.
/// - The time of a beat is read before it leaves: the lease counts from there.
/// - Who is heard and cannot be reached is silent: it hears nothing itself, so it has no lease, and
///   nobody can ask it anything.
final class BeatService: @unchecked Sendable {  // tidy:allow belongs to the control lane
    /// Beats of large clusters are fewer: every node sends to every other.
    private static let manyNodes = 16
    private static let interval: UInt64 = 100_000_000
    private static let intervalOfMany: UInt64 = 250_000_000
    private static let servedInterval: UInt64 = 500_000_000

    let node: NodeNumber
    private(set) var table: FailureTable
    private var lease: NodeLease
    private let calls: PeerCalls
    private let environment: Environment
    private let lane: any Lane
    private let sources: BeatSources
    private var timer: LaneTimer?
    private var leaseEnd: UInt64?
    private var isStopped = false
    private var toldServedAt: UInt64 = 0
    /// What each node last said of what it serves.
    private var served: [NodeNumber: [String: ServedHighs]] = [:]
    /// Who said so with its last beat.
    private var unready: Set<NodeNumber> = []
    /// When each node was heard last, and what it acted by, for whoever asks from elsewhere.
    private let heardAt = Guarded<[NodeNumber: UInt64]>([:])
    private let actedAsOf = Guarded<[NodeNumber: UInt64]>([:])
    /// When a beat came last of each node that could not be reached.
    private let unreachedAt = Guarded<[NodeNumber: UInt64]>([:])
    private let startedAt: UInt64

    init(
        node: NodeNumber,
        boot: UInt64,
        terms: LeaseTerms,
        calls: PeerCalls,
        environment: Environment,
        lane: any Lane,
        sources: BeatSources
    ) {
        self.node = node
        self.calls = calls
        self.environment = environment
        self.lane = lane
        self.sources = sources
        lease = NodeLease(terms, node: node, boot: boot)
        let now = environment.time.monotonicNanoseconds()
        startedAt = now
        table = FailureTable(of: node, now: now)
    }

    private var now: UInt64 { environment.time.monotonicNanoseconds() }

    func start() {
        calls.handleMessages(PeerKind.beat) { [weak self] from, bytes in
            self?.received(beat: bytes, from: from)
        }
        calls.handleMessages(PeerKind.beatReply) { [weak self] from, bytes in
            self?.received(reply: bytes, from: from)
        }
        calls.handleMessages(PeerKind.served) { [weak self] from, bytes in
            guard let self, let message = ServedMessage(bytes: bytes) else { return }
            served[from] = [:]
            for row in message.rows where row.node == from || served[row.node]?[row.uuid] == nil {
                served[row.node, default: [:]][row.uuid] = row.highs
            }
        }
        membersChanged()
    }

    func stop() {
        isStopped = true
        timer?.cancel()
        timer = nil
    }

    /// The nodes, the voters, or what is applied are others now.
    func membersChanged() {
        guard !isStopped else { return }
        table.expect(sources.others(), now: now)
        renew()
        if timer == nil { beat() }
    }

    func forget(_ other: NodeNumber) {
        table.forget(other)
        served[other] = nil
        unreachedAt.withLock { $0[other] = nil }
    }

    /// By the last word of each of these nodes, how far it is in what it serves of a bucket.
    func served(by others: [NodeNumber], ofBucket uuid: String) -> [NodeNumber: ServedHighs] {
        others.reduce(into: [:]) { $0[$1] = served[$1]?[uuid] }
    }

    /// How long nothing was heard of a node; from anywhere.
    func silence(of other: NodeNumber) -> UInt64 {
        let (heard, now) = (heardAt.withLock { $0[other] }, self.now)
        return now - min(heard ?? startedAt, now)
    }

    /// It was heard within so many nanoseconds, and could not be reached; from anywhere.
    func isUnreached(_ other: NodeNumber, within nanoseconds: UInt64) -> Bool {
        let (heard, now) = (unreachedAt.withLock { $0[other] }, self.now)
        return heard.map { now - min($0, now) < nanoseconds } ?? false
    }

    /// By its own last word, the entry up to which its copies follow; from anywhere.
    func actsAsOf(_ other: NodeNumber) -> UInt64 { actedAsOf.withLock { $0[other] ?? 0 } }

    /// By its own last word, all its buckets serve; of this node, as of now.
    func isReady(_ other: NodeNumber) -> Bool {
        other == node ? sources.isReady() : !unready.contains(other)
    }

    private func beat() {
        let others = sources.others()
        guard !isStopped, !others.isEmpty else {
            timer = nil
            return
        }
        let sentAt = now
        table.expect(others, now: sentAt)
        let message = BeatMessage(
            beat: lease.beat(applied: sources.applied(), now: sentAt),
            suspects: table.suspicions(among: others, now: sentAt),
            isReady: sources.isReady()
        ).bytes
        for other in others { calls.send(PeerKind.beat, message, to: other, isBulk: false) }
        if sentAt >= toldServedAt + Self.servedInterval {
            toldServedAt = sentAt
            tellServed(others)
        }
        renew()
        let isMany = others.count >= Self.manyNodes
        timer = lane.post(after: isMany ? Self.intervalOfMany : Self.interval) { [weak self] in
            self?.beat()
        }
    }

    private func tellServed(_ others: [NodeNumber]) {
        // Who leads by and by may have heard nothing of who is silent now.
        let silent = others.filter { table.isSuspect($0, now: now) }
        let told = [(node, sources.served())] + silent.map { ($0, served[$0] ?? [:]) }
        let rows = told.flatMap { teller, histories in
            histories.sorted { $0.key < $1.key }
                .map { ServedMessage.Row(node: teller, uuid: $0.key, highs: $0.value) }
        }
        let message = ServedMessage(rows: rows).bytes
        for other in others { calls.send(PeerKind.served, message, to: other, isBulk: false) }
    }

    private func received(beat bytes: [UInt8], from other: NodeNumber) {
        guard !isStopped, let message = BeatMessage(bytes: bytes), message.beat.node == other else {
            return
        }
        let isReached = calls.isConnected(to: other)
        unreachedAt.withLock { $0[other] = isReached ? nil : now }
        guard isReached else { return }
        heardAt.withLock { $0[other] = now }
        actedAsOf.withLock { $0[other] = message.beat.applied }
        if message.isReady {
            unready.remove(other)
        } else {
            unready.insert(other)
        }
        table.heard(
            other,
            isReady: message.isReady,
            suspicions: message.suspects,
            now: now
        )
        let reply = BeatReplyMessage(sources.answer(message.beat))
        calls.send(PeerKind.beatReply, reply.bytes, to: other, isBulk: false)
    }

    private func received(reply bytes: [UInt8], from other: NodeNumber) {
        guard !isStopped, let message = BeatReplyMessage(bytes: bytes),
            message.reply.voter == other
        else { return }
        lease.take(message.reply)
        renew()
    }

    /// Says what the promises come to once more: whoever is told could not heed it before.
    func tellLease() {
        guard let leaseEnd, !isStopped else { return }
        sources.leaseChanged(leaseEnd)
    }

    /// What the promises come to now; told only where it became another.
    private func renew() {
        let (newest, agreed) = sources.voters()
        let isDeposed = sources.isDeposed()
        let end = lease.end(own: newest, agreed: agreed, isDeposed: isDeposed, now: now) ?? 0
        guard end != leaseEnd else { return }
        leaseEnd = end
        sources.leaseChanged(end)
    }
}
