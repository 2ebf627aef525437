internal import Bytes
internal import Consensus
internal import Credentials
internal import Orchestration
internal import Persistence
internal import Seams
internal import Vocabulary

/// This node as a member of one cluster, from its founding or joining to its leaving: its history on
/// disk, its part in Raft, its beats.
///
/// A node that joins another cluster, or leaves one, gets another member in place of the old.
///
/// - Belongs to the control lane, but for what is said to be asked from anywhere.
final class ClusterMember: @unchecked Sendable {  // tidy:allow belongs to the control lane
    let environment: Environment
    let lane: any Lane
    let store: ControlStore
    let log: ClusterLog
    let driver: RaftDriver<ClusterLog>
    let calls: PeerCalls
    let beats: BeatService
    let ownership: OwnershipService
    /// Takes part in no decision until then: somebody forms a new epoch of this node's log.
    var deafUntil: UInt64 = 0
    /// Where nodes say that they are, against what is agreed on.
    var corrections: [NodeNumber: Correction] = [:]
    private let identityBox: Guarded<NodeIdentity>
    /// What the data plane was opened by, until it follows what is applied.
    private let openedBox = Guarded<UInt64?>(nil)
    /// What was applied when it was opened.
    private let appliedThen: Guarded<UInt64>
    private let telling: @Sendable (Severity, EventLog.Kind, String) -> Void

    /// What every member of this process shares.
    struct Surroundings {
        var environment: Environment
        var lane: any Lane
        var diskLane: any Lane
        var calls: PeerCalls
        var dataPlane: any DataPlane
        var directory: String
        var memoryQuota: UInt64
        var tell: @Sendable (Severity, EventLog.Kind, String) -> Void
    }

    /// Reads back the member that this directory's node is; founds one where there is none.
    static func restore(_ surroundings: Surroundings) throws(ClusterError) -> ClusterMember {
        do {
            try surroundings.environment.disk.createDirectory(surroundings.directory)
            let disk = surroundings.environment.disk
            let store = try ControlStore(disk: disk, directory: surroundings.directory)
            if try store.load() == nil { try Self.found(store, surroundings) }
            // A crash may have come between taking it over and putting it aside.
            try StateStore(disk: disk, directory: surroundings.directory).putAside()
            return try Self.reopen(store, surroundings)
        } catch let error as ClusterError {
            throw error
        } catch let error as StorageError {
            throw ClusterError(error)
        } catch {
            throw ClusterError(code: .disk, description: "\(error)")
        }
    }

    /// Takes up the invitation of a cluster: everything that was before is forgotten.
    ///
    /// On the lane of the disk, behind whatever the member before had on its way there.
    ///
    /// - Parameters:
    ///   - message: The invitation.
    ///   - old: Who the node was.
    ///   - store: Where it keeps that.
    ///   - memoryQuota: What it may use, in bytes.
    /// - Returns: Who it is now.
    /// - Throws: What keeps it from being written: it is what it was.
    static func join(
        _ message: EngageMessage,
        as old: NodeIdentity,
        _ store: ControlStore,
        memoryQuota: UInt64
    ) throws(ClusterError) -> NodeIdentity {
        let identity = old.engaged(by: message)
        do throws(StorageError) {
            try RaftBeginning.join(
                store,
                emptyState: ClusterState(memoryQuota: memoryQuota).encoded(),
                facts: [(NodeIdentity.fact, identity.bytes)]
            )
        } catch {
            throw ClusterError(error)
        }
        return identity
    }

    /// A node that left: it belongs to nobody again, under another name; on the lane of the disk.
    static func reset(
        _ store: ControlStore,
        _ entropy: any Entropy,
        memoryQuota: UInt64
    ) throws(ClusterError) -> NodeIdentity {
        let identity = NodeIdentity.found(entropy)
        do throws(StorageError) {
            try RaftBeginning.found(
                store,
                node: identity.number,
                state: ClusterState(memoryQuota: memoryQuota).encoded(),
                index: 0,
                facts: [(NodeIdentity.fact, identity.bytes)]
            )
        } catch {
            throw ClusterError(error)
        }
        return identity
    }

    init(
        _ identity: NodeIdentity,
        _ store: ControlStore,
        _ surroundings: Surroundings
    ) throws(ClusterError) {
        environment = surroundings.environment
        lane = surroundings.lane
        calls = surroundings.calls
        telling = surroundings.tell
        self.store = store
        identityBox = Guarded(identity)
        let boot = environment.entropy.next()
        let log = ClusterLog(ClusterState(memoryQuota: surroundings.memoryQuota))
        self.log = log
        let terms = LeaseTerms()
        var settings = RaftDriverSettings(node: identity.number, boot: boot)
        settings.leases = terms
        let driver = try RaftDriver(
            settings,
            store: store,
            state: log,
            transport: PeerRaftTransport(calls),
            environment: environment,
            lane: lane,
            diskLane: surroundings.diskLane
        )
        self.driver = driver
        let dataPlane = surroundings.dataPlane
        let node = identity.number
        let openedBox = openedBox
        let appliedThen = Guarded<UInt64>(0)
        self.appliedThen = appliedThen
        let carried = { min(openedBox.withLock { $0 } ?? .max, driver.status.applied) }
        let invited = identity.members.map(\.node)
        beats = BeatService(
            node: node,
            boot: boot,
            terms: terms,
            calls: calls,
            environment: environment,
            lane: lane,
            sources: BeatSources(
                others: {
                    let others = log.state.members.map(\.number).filter { $0 != node }
                    // Whoever was invited and hears nothing asks whether it was given up.
                    return others.isEmpty && driver.isUninformed ? invited : others
                },
                applied: carried,
                voters: { (driver.leaseVoters, driver.agreedLeaseVoters) },
                isDeposed: {
                    driver.isDeposedUnapplied || log.deposedAt[node].map { $0 > carried() } == true
                },
                isReady: { dataPlane.isReady },
                answer: { driver.answer($0) },
                served: { Self.served(of: log.state, dataPlane) },
                leaseChanged: Self.leaseGate(dataPlane, driver, openedBox, appliedThen)
            )
        )
        ownership = OwnershipService(
            calls: calls,
            dataPlane: dataPlane,
            lane: lane,
            sources: OwnershipService.Sources(
                applied: carried,
                bucket: { uuid in log.state.buckets.first { $0.settings.uuid == uuid } },
                keep: { driver.keep($0, done: $1) }
            )
        )
    }

    private static func served(
        of state: ClusterState,
        _ dataPlane: any DataPlane
    ) -> [String: ServedHighs] {
        state.buckets.reduce(into: [:]) { served, bucket in
            served[bucket.settings.uuid] = dataPlane.served(bucket: bucket.settings.name)
        }
    }

    /// Tells the data plane how long its lease lasts, once it counts.
    ///
    /// A map of long ago is served by nobody, whatever others promise. But where nothing is decided
    /// without this node, what it has decided is all there is.
    private static func leaseGate(
        _ dataPlane: any DataPlane,
        _ driver: RaftDriver<ClusterLog>,
        _ openedBox: Guarded<UInt64?>,
        _ appliedThen: Guarded<UInt64>
    ) -> (UInt64) -> Void {
        { end in
            let isFollowing = openedBox.withLock { $0 == nil }
            let isSole = end == .max && driver.log.lastIndex <= appliedThen.withLock { $0 }
            dataPlane.setLease(endNanoseconds: isFollowing || isSole ? end : 0)
        }
    }

    var node: NodeNumber { driver.settings.node }
    /// From anywhere.
    var identity: NodeIdentity { identityBox.withLock { $0 } }
    /// On the control lane.
    var state: ClusterState { log.state }
    var wallMilliseconds: UInt64 { environment.time.wallNanoseconds() / 1_000_000 }

    /// Copies here act by the map of this entry until the data plane follows, whatever is applied
    /// meanwhile; nil once it follows.
    ///
    /// What this node tells others of itself is as of then: a lease is promised to whoever acts by
    /// all that takes writing from it, not to whoever has only read of it. And none counts until then:
    /// buckets may have been emptied or deleted since, which takes writing from nobody. Of one or two
    /// voters a node knows by itself that nothing was.
    ///
    /// - Parameters:
    ///   - index: The entry; nil where copies follow.
    ///   - isWhole: What is applied now is what copies act by.
    func actsAsOf(_ index: UInt64?, isWhole: Bool = true) {
        appliedThen.withLock { $0 = isWhole ? driver.status.applied : 0 }
        openedBox.withLock { $0 = index }
    }

    /// The data plane follows: from here on the lease counts.
    func beginLease() { beats.tellLease() }

    func isUnready(_ other: NodeNumber) -> Bool {
        let now = environment.time.monotonicNanoseconds()
        if beats.table.isSuspect(other, now: now) { return false }
        return !beats.isReady(other)
    }

    // MARK: Life

    /// Begins; what is in the log is applied when this returns, on a lone node all of it.
    func start() throws(ClusterError) {
        try driver.start()
    }

    /// Talks to the others from here on.
    func connect() {
        calls.setIdentity(identity.peer)
        updateDirectory()
        calls.handleMessages(PeerKind.raft) { [weak self] from, bytes in
            guard let self, environment.time.monotonicNanoseconds() >= deafUntil else { return }
            driver.receive(bytes, from: from)
        }
        handlePlaces()
        ownership.start()
        beats.start()
    }

    func stop() {
        beats.stop()
        ownership.stop()
        driver.stop()
    }

    /// The nodes, or the cluster's names, are others now.
    func nodesChanged() {
        var identity = identity
        if state.groupID != 0 { identity.groupID = state.groupID }
        identity.clusterUUID = state.uuid ?? identity.clusterUUID
        identity.epoch = max(identity.epoch, state.revEpoch)
        if identity.claim != self.identity.claim {
            let bytes = identity.bytes
            identityBox.withLock { $0 = identity }
            let tell = telling
            driver.keep([.fact(name: NodeIdentity.fact, bytes)]) { result in
                if case .failure(let error) = result {
                    tell(.error, .node, "This node's identity could not be kept: \(error)")
                }
            }
            calls.setIdentity(identity.peer)
        }
        updateDirectory()
        beats.membersChanged()
    }

    func updateDirectory() {
        var places: [NodeNumber: PeerAddress] = [:]
        for node in state.members where node.ports.peer != 0 {
            places[node.number] = place(of: node)
        }
        let isInformed = state.nodes.contains { $0.number == node }
        // Before the state has come, whoever invited this node has said where the others are.
        for place in isInformed ? [] : identity.members {
            places[place.node] = PeerAddress(host: place.host, port: place.port)
        }
        let highest = isInformed ? state.nextNodeNumber.value - 1 : 0
        calls.setDirectory(
            PeerDirectory(
                places,
                highestGiven: NodeNumber(highest),
                pastGroups: state.pastGroups
            )
        )
    }

    // MARK: From anywhere

    func tell(_ severity: Severity, _ kind: EventLog.Kind, _ text: String) {
        telling(severity, kind, text)
    }

    func propose(_ command: ClusterCommand) async throws(ClusterError) -> ClusterOutcome {
        try await carry(command).outcome
    }

    /// The same of what only this leader may have agreed on.
    func proposeAsLeader(_ command: ClusterCommand) async throws(ClusterError) -> ClusterOutcome {
        try await carry(command, isLeaders: true).outcome
    }

    func carry(
        _ command: ClusterCommand,
        isLeaders: Bool = false
    ) async throws(ClusterError) -> CarriedOutcome {
        try await driver.propose(isLeaders: isLeaders) { number in
            ClusterEnvelope(
                proposer: number.node,
                boot: number.boot,
                number: number.number,
                command: command
            ).encoded()
        }
    }

    func callStranger(
        _ address: PeerAddress,
        _ kind: UInt16,
        _ payload: [UInt8],
        timeoutNanoseconds: UInt64
    ) async -> Result<[UInt8], PeerCallError> {
        await withUnsafeContinuation { waiter in
            lane.post {
                self.calls.callStranger(
                    at: address,
                    kind,
                    payload,
                    timeoutNanoseconds: timeoutNanoseconds
                ) { waiter.resume(returning: $0) }
            }
        }
    }

    func sleep(milliseconds: UInt64) async {
        await withUnsafeContinuation { waiter in
            lane.post(after: milliseconds * 1_000_000) { waiter.resume() }
        }
    }
}

/// Raft's messages between nodes.
private final class PeerRaftTransport: RaftTransport {
    private let calls: PeerCalls

    init(_ calls: PeerCalls) {
        self.calls = calls
    }

    func send(_ bytes: [UInt8], to node: NodeNumber) { calls.send(PeerKind.raft, bytes, to: node) }
}
