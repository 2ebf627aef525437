internal import Bytes
internal import Consensus
internal import Orchestration
internal import Persistence
internal import Seams
internal import Vocabulary

/// This node as a member of one cluster, from founding or joining to leaving: its history on disk,
/// its part in Raft, its beats.
///
/// When a node joins another cluster, or leaves one, the member is replaced by another one.
///
/// - Belongs to the control lane, except for what is marked as callable from any thread.
final class ClusterMember: @unchecked Sendable {  // tidy:allow belongs to the control lane
    let environment: Environment
    let lane: any Lane
    let store: ControlStore
    let log: ClusterLog
    let driver: RaftDriver<ClusterLog>
    let calls: PeerCalls
    let beats: BeatService
    let ownership: OwnershipService
    /// The monotonic time in nanoseconds until which Raft messages are ignored, because a new epoch
    /// is being formed from this node's log; 0 if none is.
    var deafUntil: UInt64 = 0
    /// By node: addresses that nodes sent and that are not agreed on yet.
    var corrections: [NodeNumber: Correction] = [:]
    private let identityBox: Guarded<NodeIdentity>
    /// The log index of the state by which copies act; nil once the data plane follows.
    private let openedBox = Guarded<UInt64?>(nil)
    /// The applied index at the last `actsAsOf`; 0 if the copies do not act by all of it.
    private let appliedThen: Guarded<UInt64>
    private let logEventHandler: @Sendable (Severity, EventLog.Kind, String) -> Void

    /// The parts of the process that its successive members share.
    struct Dependencies {
        var environment: Environment
        var lane: any Lane
        var diskLane: any Lane
        var calls: PeerCalls
        var dataPlane: any DataPlane
        var directory: String
        var memoryQuota: UInt64
        /// The highest feature level that this node announces.
        var level: FeatureLevel
        var logEvent: @Sendable (Severity, EventLog.Kind, String) -> Void
    }

    /// Restores the directory's member; founds a new group if there is none.
    ///
    /// - Throws: `ClusterError` if the directory cannot be read or written.
    static func restore(_ dependencies: Dependencies) throws(ClusterError) -> ClusterMember {
        do {
            try dependencies.environment.disk.createDirectory(dependencies.directory)
            let disk = dependencies.environment.disk
            let store = try ControlStore(disk: disk, directory: dependencies.directory)
            if try store.load() == nil { try Self.found(store, dependencies) }
            return try Self.reopen(store, dependencies)
        } catch let error as ClusterError {
            throw error
        } catch let error as StorageError {
            throw ClusterError(error)
        } catch {
            throw ClusterError(code: .disk, description: "\(error)")
        }
    }

    /// Replaces the node's history by an invitation to a cluster.
    ///
    /// Runs on the disk's lane, after the writes of the previous member.
    ///
    /// - Parameters:
    ///   - message: The invitation.
    ///   - old: The node's previous identity.
    ///   - store: The node's store.
    ///   - memoryQuota: The initial memory quota, in bytes.
    /// - Returns: The node's new identity.
    /// - Throws: `ClusterError` if it cannot be written; the history is unchanged then.
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
                facts: [(NodeIdentity.fact, identity.encoded)]
            )
        } catch {
            throw ClusterError(error)
        }
        return identity
    }

    /// Makes the node a new one, with a new identity; on the disk's lane.
    ///
    /// - Throws: `ClusterError` if it cannot be written; the history is unchanged then.
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
                facts: [(NodeIdentity.fact, identity.encoded)]
            )
        } catch {
            throw ClusterError(error)
        }
        return identity
    }

    init(
        _ identity: NodeIdentity,
        _ store: ControlStore,
        _ dependencies: Dependencies
    ) throws(ClusterError) {
        environment = dependencies.environment
        lane = dependencies.lane
        calls = dependencies.calls
        logEventHandler = dependencies.logEvent
        self.store = store
        identityBox = Guarded(identity.announcing(dependencies.level))
        let boot = environment.entropy.next()
        let log = ClusterLog(memoryQuota: dependencies.memoryQuota, level: dependencies.level)
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
            diskLane: dependencies.diskLane
        )
        self.driver = driver
        let dataPlane = dependencies.dataPlane
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
                    // An invited node that has received no entry sends its beats to the inviting
                    // nodes, to learn whether the invitation still holds.
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
    ) -> [String: ActiveSeqnoDigest] {
        state.buckets.reduce(into: [:]) { served, bucket in
            served[bucket.settings.uuid] = dataPlane.served(bucket: bucket.settings.name)
        }
    }

    /// Passes the end of the lease to the data plane, or 0 while the lease does not count.
    ///
    /// A lease does not count until the data plane follows, because this node's map may be out of
    /// date. Exception: if the lease has no end (`.max`), no entry can be committed without this
    /// node. Then the map is current if the log has no entry after `appliedThen`.
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
    /// Callable from any thread.
    var identity: NodeIdentity { identityBox.withLock { $0 } }
    /// On the control lane.
    var state: ClusterState { log.state }
    var wallMilliseconds: UInt64 { environment.time.wallNanoseconds() / 1_000_000 }

    /// Sets the log index by which copies act until the data plane follows; nil once it follows.
    ///
    /// Beats report this index. Voters promise a lease only to a node whose copies act by every
    /// entry that deposes it; to have received such an entry is not enough. No lease counts until
    /// the data plane follows, because later entries may empty or delete buckets, which deposes no
    /// node. A node that is one of at most two voters has every such entry in its own log.
    ///
    /// - Parameters:
    ///   - index: The log index; nil if copies follow.
    ///   - isWhole: Whether copies act by everything that is applied now.
    func actsAsOf(_ index: UInt64?, isWhole: Bool = true) {
        appliedThen.withLock { $0 = isWhole ? driver.status.applied : 0 }
        openedBox.withLock { $0 = index }
    }

    /// Reports the lease to the data plane, which has begun to follow: from now on the lease
    /// counts.
    func beginLease() { beats.reportLease() }

    // MARK: Life

    /// Starts the driver; the known committed entries are applied when this returns.
    ///
    /// - Throws: `ClusterError` with the code `.disk` if the first write fails.
    func start() throws(ClusterError) {
        do throws(ClusterError) {
            try driver.start()
        } catch {
            throw log.levelError ?? error
        }
    }

    /// Starts to communicate with other nodes.
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

    /// Updates identity and directory after a change of nodes or of the cluster's name.
    func nodesChanged() {
        var identity = identity
        if state.groupID != 0 { identity.groupID = state.groupID }
        identity.clusterUUID = state.uuid ?? identity.clusterUUID
        identity.epoch = max(identity.epoch, state.revEpoch)
        if identity.claim != self.identity.claim {
            let bytes = identity.encoded
            identityBox.withLock { $0 = identity }
            let logEvent = logEventHandler
            driver.keep([.fact(name: NodeIdentity.fact, bytes)]) { result in
                if case .failure(let error) = result {
                    logEvent(
                        .error,
                        .node,
                        "This node's identity could not be stored: \(error). Check the disk."
                    )
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
            places[node.number]?.isJoining = node.membership == .joining
        }
        let isInformed = state.nodes.contains { $0.number == node }
        // Until the state arrives, use the addresses in the invitation.
        for place in isInformed ? [] : identity.members {
            places[place.node] = PeerAddress(
                host: place.host,
                port: place.port,
                key: place.key
            )
        }
        let highest = isInformed ? state.nextNodeNumber.value - 1 : 0
        calls.setDirectory(
            PeerDirectory(
                places,
                highestGiven: NodeNumber(highest),
                pastGroups: state.pastGroups,
                level: state.featureLevel
            )
        )
    }

    // MARK: From any thread

    func logEvent(_ severity: Severity, _ kind: EventLog.Kind, _ text: String) {
        logEventHandler(severity, kind, text)
    }

    func propose(
        _ command: ClusterCommand,
        by login: String? = nil
    ) async throws(ClusterError) -> ClusterOutcome {
        try await carry(command, by: login).outcome
    }

    /// Proposes a command that enters the log only if this node is still the leader.
    ///
    /// - Throws: `ClusterError`: `.notLeader`, or as `RaftDriver.propose`.
    func proposeAsLeader(
        _ command: ClusterCommand,
        by login: String?
    ) async throws(ClusterError) -> ClusterOutcome {
        try await carry(command, by: login, isLeaders: true).outcome
    }

    func carry(
        _ command: ClusterCommand,
        by login: String? = nil,
        isLeaders: Bool = false
    ) async throws(ClusterError) -> ProposalResult {
        try await driver.propose(isLeaders: isLeaders) { number in
            ClusterEnvelope(
                proposer: number.node,
                boot: number.boot,
                number: number.number,
                login: login,
                command: command
            ).encoded
        }
    }

    func callStranger(
        _ address: PeerAddress,
        _ kind: UInt16,
        timeoutNanoseconds: UInt64,
        payload: @escaping PeerCalls.StrangerPayload
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

/// Sends Raft's frames to other nodes by `PeerCalls`.
private final class PeerRaftTransport: RaftTransport {
    private let calls: PeerCalls

    init(_ calls: PeerCalls) {
        self.calls = calls
    }

    func send(_ bytes: [UInt8], to node: NodeNumber) { calls.send(PeerKind.raft, bytes, to: node) }
}
