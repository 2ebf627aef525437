internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary

/// The inputs of beats from this node's member of the Raft group; called on the control lane.
struct BeatSources {
    /// The other nodes of the cluster, regardless of their membership state.
    var others: () -> [NodeNumber]
    var applied: () -> UInt64
    /// The newest configuration in this node's log, and the previous one until the newest is known
    /// to be committed.
    var voters: () -> (newest: LeaseVoters, agreed: LeaseVoters?)
    /// Whether an unapplied entry in this node's log deposes it.
    var isDeposed: () -> Bool
    /// Whether every bucket can serve.
    var isReady: () -> Bool
    /// Answers another node's beat with a promise, or with the reason why not.
    var answer: (LeaseBeat) -> LeaseReply
    /// By bucket UUID: the seqnos of what this node serves.
    var served: () -> [String: ActiveSeqnoDigest]
    /// Receives the end of the lease: 0 for none, `.max` for ever.
    var leaseChanged: (UInt64) -> Void
}

/// Sends a beat to every node ten times a second, and evaluates the beats received: this node's
/// lease, and the table of nodes that answer.
///
/// - Belongs to the control lane.
/// - A lone node sends nothing and needs no timer.
/// - The time of a beat is read before it is sent: the lease counts from there.
/// - One connection carries the beats of both nodes: a node whose beats arrive can be called.
final class BeatService: @unchecked Sendable {  // tidy:allow belongs to the control lane
    /// In large clusters beats are sent less often, because every node sends to every other.
    private static let manyNodes = 16
    private static let intervalNanoseconds: UInt64 = 100_000_000
    private static let intervalOfManyNodesNanoseconds: UInt64 = 250_000_000
    private static let servedIntervalNanoseconds: UInt64 = 500_000_000

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
    private var servedSentAt: UInt64 = 0
    /// By node, by bucket UUID: the last received seqnos of what it serves.
    private(set) var served: [NodeNumber: [String: ActiveSeqnoDigest]] = [:]
    /// Nodes whose last beat said that not all buckets serve.
    private var unready: Set<NodeNumber> = []
    /// When each node was last heard, and the log index by which it acts; for other threads.
    private let heardAt = Guarded<[NodeNumber: UInt64]>([:])
    private let actedAsOf = Guarded<[NodeNumber: UInt64]>([:])
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
            guard let self, let message = ServedMessage(message: bytes) else { return }
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

    /// Updates the tables after a change of nodes, voters or applied entries.
    func membersChanged() {
        guard !isStopped else { return }
        table.expect(sources.others(), now: now)
        renew()
        if timer == nil { beat() }
    }

    func forget(_ other: NodeNumber) {
        table.forget(other)
        served[other] = nil
    }

    /// Records the end of a connection attempt.
    ///
    /// - Parameters:
    ///   - other: The node.
    ///   - isRefused: Whether the kernel of its machine refused the connection.
    func attemptEnded(to other: NodeNumber, isRefused: Bool) {
        if isRefused { table.refused(other, now: now) } else { table.attempted(other) }
    }

    /// Nanoseconds since the last beat of a node; from any thread.
    func silence(of other: NodeNumber) -> UInt64 {
        let (heard, now) = (heardAt.withLock { $0[other] }, self.now)
        return now - min(heard ?? startedAt, now)
    }

    /// The log index by which a node's copies act, by its last beat; from any thread.
    func actsAsOf(_ other: NodeNumber) -> UInt64 { actedAsOf.withLock { $0[other] ?? 0 } }

    /// Whether all buckets of a node serve, by its last beat; for this node, the current state.
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
        ).encoded
        for other in others { calls.send(PeerKind.beat, message, to: other, isBulk: false) }
        if sentAt >= servedSentAt + Self.servedIntervalNanoseconds {
            servedSentAt = sentAt
            sendServed(others)
        }
        renew()
        let isMany = others.count >= Self.manyNodes
        timer = lane.post(
            after: isMany ? Self.intervalOfManyNodesNanoseconds : Self.intervalNanoseconds
        ) { [weak self] in
            self?.beat()
        }
    }

    private func sendServed(_ others: [NodeNumber]) {
        // A future leader may never have received a beat from a node that is silent now.
        let silent = others.filter { table.isSuspect($0, now: now) }
        let told = [(node, sources.served())] + silent.map { ($0, served[$0] ?? [:]) }
        let rows = told.flatMap { teller, histories in
            histories.sorted { $0.key < $1.key }
                .map { ServedMessage.Row(node: teller, uuid: $0.key, highs: $0.value) }
        }
        let message = ServedMessage(rows: rows).encoded
        for other in others { calls.send(PeerKind.served, message, to: other, isBulk: false) }
    }

    private func received(beat bytes: [UInt8], from other: NodeNumber) {
        guard !isStopped, let message = BeatMessage(message: bytes), message.beat.node == other
        else { return }
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
        let reply = sources.answer(message.beat)
        calls.send(PeerKind.beatReply, reply.encoded, to: other, isBulk: false)
    }

    private func received(reply bytes: [UInt8], from other: NodeNumber) {
        guard !isStopped, let reply = LeaseReply(message: bytes), reply.voter == other else {
            return
        }
        lease.take(reply)
        renew()
    }

    /// Reports the end of the lease again, after the receiver could not use it before.
    func reportLease() {
        guard let leaseEnd, !isStopped else { return }
        sources.leaseChanged(leaseEnd)
    }

    /// Computes the end of the lease; reports it if it changed.
    private func renew() {
        let (newest, agreed) = sources.voters()
        let isDeposed = sources.isDeposed()
        let end = lease.end(own: newest, agreed: agreed, isDeposed: isDeposed, now: now) ?? 0
        guard end != leaseEnd else { return }
        leaseEnd = end
        sources.leaseChanged(end)
    }
}
