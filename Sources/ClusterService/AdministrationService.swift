package import Bytes
package import Consensus
package import Credentials
package import Orchestration
package import Persistence
package import Seams
package import Vocabulary

/// The cluster's administration on this node: agreed, stored on disk, carried out.
///
/// A majority of the voters stores a command on disk before any node applies it. Nodes apply
/// commands in the order of the log. This node carries out on the data plane what it applies, and
/// then answers the request. All of this runs on the control lane.
///
/// - A request is answered only after its change is on this node's disk.
/// - The data plane opens a bucket before the bucket's configuration is published, so that a client
///   can select every bucket in a configuration.
/// - If the data plane cannot open a new bucket, a lone node deletes the bucket again.
package final class AdministrationService: Sendable {
    /// Settings by the operator and the machine that are not part of the state.
    package struct Settings: Sendable {
        /// The directory of the state; created if it is missing.
        package var directory: String
        /// The initial memory quota for documents, in bytes.
        package var memoryQuota: UInt64
        /// Memory of the machine, or of the container, in bytes.
        package var memoryTotal: UInt64
        /// The highest feature level that this node announces; below the release's in tests only.
        package var level = FeatureLevel.current
        /// The listener for plain memcached clients; nil if there is none.
        package var memcached: MemcachedListener?
        /// Checks the functions of views; nil accepts every source.
        package var scripts: (any ScriptCheck)?
        /// Carries out an order for this node; returns whether it has the document's indexes.
        ///
        /// Called from any thread. Nil if the node has no views.
        package var compactViews: (@Sendable (ViewCompactionOrder) -> Bool)?
        /// The indexes of this node whose files are open; nil if the node has no views.
        package var openIndexCount: (@Sendable () -> Int)?
        /// Names under which clients reach this node, besides those that the cluster knows.
        package var hostNames: [String] = []
        /// The address on which the node serves clients only without TLS; nil if it serves TLS.
        package var unsecuredHost: String?
        /// Serves a stream on which a node reads the changes of this node's copies.
        ///
        /// Nil if there is no data service: then there are no feeds.
        package var answerChanges: (@Sendable (any StreamPort, ByteView) -> (any StreamHandler)?)?

        package init(directory: String, memoryQuota: UInt64, memoryTotal: UInt64) {
            self.directory = directory
            self.memoryQuota = memoryQuota
            self.memoryTotal = memoryTotal
        }
    }

    struct Core {
        var state: ClusterState
        var member: ClusterMember
        var orchestrator: Orchestrator?
        var isServing = false
        var isStopped = false
        var startedNanoseconds: UInt64 = 0
        var watch = StateWatch()
        /// Whether applied entries are carried out on the data plane.
        ///
        /// False until the buckets are open and, in a cluster, the current state is known.
        var isFollowing = false
        /// Whether a majority of several voters confirmed the list of buckets since this start.
        ///
        /// False on a node that started alone: an operator may have replaced its state by an older
        /// one, which no other node can correct.
        var hasHeardOthers = false
        /// The state from which the buckets were opened; in a cluster, nil once this node follows.
        var opened: ClusterState?
        /// The error that keeps this node from following, as a sentence for an operator; nil if the
        /// node follows, or only waits for other nodes.
        var unfollowed: String?
        /// By bucket UUID: seals from before a restart, while this node begins to follow.
        var seals: [String: [FencedVBucket]] = [:]
        /// Whether the timer of `activateLonePendingCopies` is armed.
        var isCopyTimerArmed = false
        var openings = BucketOpenings()
        /// The rebalance report that was last shown; reported progress never decreases.
        var shown: (rebalance: String, report: RebalanceReport)?
        /// Nodes for which a feature level that is too low was logged already.
        var levelsReported: Set<NodeNumber> = []
        /// The new epoch that this or another node is forming; nil if there is none.
        var forming: FormingEpoch?
        /// The key of the member that this node has requested to add it; empty before it is known.
        var expectedInviter: [UInt8]?
        /// Addresses from which a request to join is being checked.
        var joinLogins: Set<String> = []
        /// By address: when a node was reported that was refused.
        var refusedAt: [String: UInt64] = [:]
        /// Whether this node is changing to another cluster or epoch.
        var isAdopting = false
        /// Nodes to which this node is sending its epoch for adoption.
        var bringing: Set<NodeNumber> = []
        /// The address at which this node listens.
        var address: Address?
        /// The open HTTP feeds of clients, by the client's login.
        var feeds: [String: Int] = [:]
        /// Reads the machine's memory and processors.
        var machine: (@Sendable () -> MachineReading)?
    }

    package let settings: Settings
    package let dataPlane: any DataPlane
    package let events: EventLog
    package let sampler: StatisticsSampler
    /// Connections to the other nodes, shared with the data plane.
    package let transport: PeerTransport
    /// Streams to other nodes, for services beside this one.
    package var streams: any NodeStreams { transport }
    package let initToken: InitToken
    /// Nil if the environment has no certificates.
    let certificates: NodeCertificates?
    let environment: Environment
    let passwords: PasswordVerifier
    let derivation: PasswordDerivation
    let probe: any NodeProbe
    let lane: any Lane
    let diskLane: any Lane
    let executor: LaneExecutor
    let calls: PeerCalls
    /// The parts of the process that its successive members share.
    let dependencies: ClusterMember.Dependencies
    let core: Guarded<Core>
    /// Statistics received from the other nodes.
    let receivedStatistics = ReceivedStatistics()

    /// Restores the node's state, or creates that of a new node.
    ///
    /// - Throws: `ClusterError` if the state cannot be read or written.
    package init(
        settings: Settings,
        environment: Environment,
        dataPlane: any DataPlane,
        passwords: PasswordVerifier,
        probe: any NodeProbe
    ) throws(ClusterError) {
        self.settings = settings
        self.environment = environment
        initToken = InitToken(in: settings.directory, environment)
        self.dataPlane = dataPlane
        self.passwords = passwords
        derivation = PasswordDerivation(environment)
        self.probe = probe
        let events = EventLog()
        self.events = events
        lane = environment.lanes.makeLane("control")
        diskLane = environment.lanes.makeLane("control-disk")
        executor = LaneExecutor(lane)
        transport = PeerTransport(
            environment: environment,
            limits: PeerLimits(within: environment.descriptors.plan)
        )
        calls = PeerCalls(over: transport, lane: lane)
        sampler = StatisticsSampler(time: environment.time, lane: lane)
        dependencies = ClusterMember.Dependencies(
            environment: environment,
            lane: lane,
            diskLane: diskLane,
            calls: calls,
            dataPlane: dataPlane,
            directory: settings.directory,
            memoryQuota: settings.memoryQuota,
            level: settings.level,
            logEvent: { events.log($0, $1, $2, environment) }
        )
        let member = try ClusterMember.restore(dependencies)
        try member.start()
        let supplied = try Self.storedCertificate(in: member.store)
        certificates = environment.security.certificates.map {
            NodeCertificates($0, supplied: supplied, environment.entropy)
        }
        core = Guarded(Core(state: member.state, member: member))
        do throws(DiskError) {
            try initToken.reconcile(isNeeded: !member.state.isProvisioned)
        } catch {
            throw ClusterError(code: .disk, description: error.description)
        }
        member.log.follower = self
        if let node = member.state.node(number: member.node) {
            environment.trace.identify(node: node.otpNode)
        }
        watchCertificates()
        passwords.plainLogins.onFirst { user in
            let text =
                "A client on another machine has sent the password of \"\(user)\" without TLS (PLAIN). "
                + "Let it use TLS or SCRAM; allowPlainWithoutTLS=false (POST /settings/security) "
                + "refuses such logins."
            events.log(.warning, .node, text, environment)
        }
    }

    /// How many clients on other machines have sent a password without TLS since this node's start.
    package var plainLoginCount: UInt64 { passwords.plainLogins.count }

    /// The current member; replaced when the node joins or leaves a cluster.
    var member: ClusterMember { core.withLock { $0.member } }

    /// The number of this node in its cluster.
    package var thisNode: NodeNumber { member.node }

    /// The applied state.
    package var state: ClusterState { core.withLock { $0.state } }

    /// Calls `observer` after every change of `state` from now on, on the control lane.
    ///
    /// A change was carried out on the data plane before, if this node follows changes at all. The
    /// observer is called once for each entry of the log, so it has to be cheap; it replaces the one
    /// before.
    package func observeState(_ observer: @escaping @Sendable () -> Void) {
        core.withLock { $0.watch.stateObserver = observer }
    }

    func notifyStateObserver() {
        let (observer, node) = core.withLock {
            ($0.watch.stateObserver, $0.state.node(number: $0.member.node))
        }
        if let node { environment.trace.identify(node: node.otpNode) }
        observer?()
    }

    /// The revision of the state, without a copy of it; nil before provisioning.
    package var stateAge: ClusterState.Age? {
        core.withLock { $0.state.isProvisioned ? $0.state.age : nil }
    }

    /// `start` has been called and `beginStop` has not.
    package var isServing: Bool { core.withLock { $0.isServing } }

    /// Seconds since `start`.
    package var uptimeSeconds: UInt64 {
        let started = core.withLock { $0.startedNanoseconds }
        return started == 0
            ? 0 : (environment.time.monotonicNanoseconds() - started) / 1_000_000_000
    }

    package var wallMilliseconds: UInt64 { environment.time.wallNanoseconds() / 1_000_000 }
    /// For durations: unlike the wall clock it is never set.
    package var monotonicNanoseconds: UInt64 { environment.time.monotonicNanoseconds() }

    // MARK: Life

    /// Opens every bucket and sets every user's credentials on the data plane.
    ///
    /// Call it before the data service listens, so that no client gets the answer that an existing
    /// bucket is unknown.
    ///
    /// A bucket that cannot be opened is shown as failed; all other buckets are served.
    package func openBuckets() {
        let state = state
        let isAlone = isAlone
        followMemcachedListener()
        // Until voters promise a lease, this node's map may be out of date, so it serves nothing.
        if !isAlone { dataPlane.setLease(endNanoseconds: 0) }
        // Only on a lone node: in a cluster, the log may have buckets that are not applied here
        // yet.
        if isAlone { dataPlane.retain(only: state.buckets.map(\.settings)) }
        followPasswordRules(of: state)
        addUsers(of: state)
        if state.node(number: thisNode)?.membership == .active {
            for bucket in state.buckets { open(bucket, of: state, isNew: false) }
        }
        core.withLock { core in
            core.isFollowing = isAlone
            core.opened = state
        }
        if isAlone { notifyStateObserver() } else { member.actsAsOf(state.index) }
        activateLonePendingCopies()
    }

    /// Whether this node is the only member.
    ///
    /// False after an invitation, when the configuration is still empty.
    var isAlone: Bool { member.driver.status.configuration.members.count == 1 }

    /// Listens for other nodes; returns the port.
    ///
    /// - Throws: `NetworkError` if the address cannot be listened on.
    package func listenForPeers(on address: SocketAddress) throws(NetworkError) -> UInt16 {
        try transport.listen(on: address).port
    }

    /// Starts to serve under the addresses at which the node listens, and publishes configurations.
    ///
    /// - Throws: `ClusterError` if a lone node cannot store its address.
    package func start(host: String, ports: NodePorts) async throws(ClusterError) {
        core.withLock { $0.address = Address(host: host, ports: ports) }
        updateCertificates()
        await onControl { self.connect() }
        if isAlone {
            try await announceAddress()
        } else {
            // Other nodes may be down, so announce the address in the background, with retries.
            executor.spawn {
                await self.followWhenCurrent()
                // The first announcement compares the address with the state at the start, which
                // may lack the previous run's address. Compare it with the current state as well.
                if !self.isKnownAsItIs { await self.announceUntilKnown() }
            }
            executor.spawn { await self.announceUntilKnown() }
        }
        // In the order of applied changes: here, an older state could replace a newer one for good.
        await onControl { self.publishAll() }
        let now = environment.time.monotonicNanoseconds()
        core.withLock {
            $0.isServing = true
            $0.startedNanoseconds = max(now, 1)
        }
        startStatistics()
        let name = state.node(number: thisNode)?.otpNode ?? ""
        logEvent(.info, .node, "Node \(name) has started to serve.")
        if let flaw = memoryFlaw { logEvent(.warning, .settings, flaw) }
    }

    /// Whether a cluster has invited this node and the cluster's metadata has not arrived yet.
    var isInvited: Bool { member.driver.status.configuration.members.isEmpty }

    func announceUntilKnown() async {
        while !core.withLock({ $0.isStopped }) {
            do throws(ClusterError) {
                if !isInvited { return try await announceAddress() }
                await member.sleep(milliseconds: 1_000)
            } catch {
                await member.sleep(milliseconds: 1_000)
            }
        }
    }

    /// Runs `work` on the control lane and waits for it.
    func onControl<Result: Sendable>(_ work: @escaping @Sendable () -> Result) async -> Result {
        await withUnsafeContinuation { waiter in
            lane.post { waiter.resume(returning: work()) }
        }
    }

    /// Starts to communicate with other nodes, and an orchestrator; on the control lane.
    func connect() {
        let member = member
        let orchestrator = Orchestrator(member, executor: executor)
        core.withLock { $0.orchestrator = orchestrator }
        member.driver.onChange = { [weak orchestrator, weak member] _ in
            member?.beats.membersChanged()
            orchestrator?.requestRound()
        }
        calls.observe { [weak self] event in self?.peerEvent(event) }
        calls.handleStrangers(PeerKind.engage) { [weak self] sender, bytes, answer in
            self?.engaged(bytes, by: sender, answer)
        }
        calls.handleStrangers(PeerKind.describe) { [weak self] sender, bytes, answer in
            self?.describeSelf(bytes, to: sender, answer)
        }
        calls.handleStrangers(PeerKind.join) { [weak self] sender, bytes, answer in
            self?.joinRequested(bytes, by: sender, answer)
        }
        calls.handleCalls(PeerKind.leader) { [weak orchestrator] _, bytes, answer in
            guard let orchestrator, let request = LeaderRequest(message: bytes) else {
                return answer(LeaderAnswer.refused("The call is malformed.").encoded)
            }
            orchestrator.executor.spawn { answer(await orchestrator.answer(request).encoded) }
        }
        handleStatistics()
        handleHistories()
        handleEvents()
        handleCertificates()
        handleBucketOrders()
        handleViewCompaction()
        handleDocuments()
        if let answer = settings.answerChanges { streams.serve(.feeds, answer) }
        handleEpochs()
        member.connect()
        orchestrator.start()
    }

    /// Ends every stream and refuses new requests; requests under way may still propose.
    package func beginStop() {
        let wakes = core.withLock { core in
            core.isServing = false
            return core.watch.change()
        }
        for wake in wakes { wake() }
    }

    /// Ends the control lane; further calls have no effect.
    ///
    /// The owner of the data plane stops the data plane.
    package func stop() {
        beginStop()
        let isFirst = core.withLock { core in
            defer { core.isStopped = true }
            return !core.isStopped
        }
        guard isFirst else { return }
        sampler.stop()
        let (member, orchestrator) = core.withLock { ($0.member, $0.orchestrator) }
        lane.post {
            // Fail all waiting callers: an ended lane would never resume them.
            member.stop()
            self.calls.stop()
        }
        if let orchestrator { executor.spawn { await orchestrator.stop() } }
        transport.stop()
        derivation.stop()
        lane.stop()
        diskLane.stop()
    }

    // MARK: Changes

    /// The outcome of a proposal.
    package enum Outcome: Sendable {
        case done
        case refused(ClusterRefusal)
        /// The command was agreed on, but the data plane could not carry it out. A lone node
        /// deletes a new bucket in this case.
        case failed(DataPlaneError)
    }

    /// Proposes a command; returns once it is applied and carried out here.
    ///
    /// - Throws: `ClusterError`: `.stopping`, or as `RaftDriver.propose`.
    package func propose(
        _ command: ClusterCommand,
        by login: String? = nil
    ) async throws(ClusterError) -> Outcome {
        guard !core.withLock({ $0.isStopped }) else { throw .stopping }
        let carried = try await member.carry(command, by: login)
        if let failure = carried.failure {
            if case .createBucket(let bucket) = command, state.nodes.count == 1 {
                try await deleteUnopenable(bucket.settings)
            }
            return .failed(failure)
        }
        if case .refused(let refusal) = carried.outcome { return .refused(refusal) }
        return .done
    }

    /// Deletes a lone node's new bucket that the data plane cannot open: clients could not use it.
    private func deleteUnopenable(_ settings: BucketSettings) async throws(ClusterError) {
        for phase in [BucketStep.Phase.begin, .end] {
            let step = BucketStep(name: settings.name, uuid: settings.uuid, phase: phase)
            _ = try await member.carry(.deleteBucket(step))
        }
    }

    /// The state with everything that was agreed on before this call.
    ///
    /// - Throws: `ClusterError` with the code `.noQuorum` if no majority answers in time; then only
    ///   `state` is available, which may be out of date.
    package func readCurrent(
        timeout nanoseconds: UInt64 = 500_000_000
    ) async throws(ClusterError) -> ClusterState {
        guard !core.withLock({ $0.isStopped }) else { throw .stopping }
        _ = try await member.driver.readIndex(timeout: nanoseconds)
        return state
    }

    /// The store of this node's log, state, seals and identity.
    package var controlStore: ControlStore { member.store }

    /// The status of this node's Raft member.
    package var raftStatus: RaftStatus { member.driver.status }

    /// This node's Raft log; only for simulations, which run on one thread.
    package var raftLog: RaftLog { member.driver.log }

    /// Logs an event for the operator, also for `/logs`; the arguments are those of `EventLog.log`.
    package func logEvent(
        _ severity: Severity,
        _ kind: EventLog.Kind,
        of bucket: String? = nil,
        index: UInt64 = 0,
        _ text: String
    ) {
        events.log(severity, kind, of: bucket, index: index, text, environment)
    }
}
