internal import Bytes
package import Consensus
package import Credentials
package import Orchestration
package import Persistence
package import Seams
package import Vocabulary

/// The cluster's truth on this node: agreed, kept on disk, carried out.
///
/// A command is agreed on by a majority of the voters, on disk, before it is applied; carried out as
/// it is applied, in the order of the log; and answered then. All of it happens on the control lane.
///
/// - Nothing is answered before it is on disk.
/// - The data plane is told of a bucket before its configuration is published, so that a client
///   that learns of a bucket can select it.
/// - A bucket whose data plane refuses to open it is taken back where there is but one node.
package final class AdministrationService: Sendable {
    /// What the operator and the machine say, and the state does not hold.
    package struct Settings: Sendable {
        /// Where the state is kept; made where it is missing.
        package var directory: String
        /// For documents, in bytes, where nobody has set it yet.
        package var memoryQuota: UInt64
        /// Bytes of memory that the machine, or the container, gives us.
        package var memoryTotal: UInt64
        /// For plain memcached clients; nil if there is none.
        package var memcached: MemcachedListener?

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
        var watch = ChangeWatch()
        /// Buckets are open: what is applied from here on is carried out.
        var isFollowing = false
        /// A majority of several said in this life which buckets there are.
        ///
        /// A lone node may have been given an older state by hand: nobody knows better.
        var hasHeardOthers = false
        /// What buckets were opened by, until this node follows.
        var opened: ClusterState?
        /// Why it does not follow yet, where that is more than that it waits for the others.
        var unfollowed: String?
        /// What was promised before a restart, by bucket, while this node begins to follow.
        var seals: [String: [FencedVBucket]] = [:]
        /// Copies wait for this node alone: it looks again.
        var isLookingAfterCopies = false
        /// Buckets that could not be opened, and why; tried again.
        var unopened: [String: String] = [:]
        /// What was last shown of a rebalance here, and of which: never less is shown after it.
        var shown: (rebalance: String, report: RebalanceReport)?
        /// A new epoch that is being formed, here or elsewhere.
        var forming: FormingEpoch?
        /// This node goes over to another epoch just now.
        var isAdopting = false
        /// Nodes that are being brought over into this node's epoch.
        var bringing: Set<NodeNumber> = []
        /// Where this node really listens.
        var address: (host: String, ports: NodePorts)?
        /// Who knows the machine's memory and processors.
        var machine: (@Sendable () -> MachineReading)?
    }

    package let settings: Settings
    package let dataPlane: any DataPlane
    package let events: EventLog
    package let sampler: StatisticsSampler
    /// Connections to the other nodes: shared with the data plane.
    package let transport: PeerTransport
    let environment: Environment
    let passwords: PasswordVerifier
    let probe: any NodeProbe
    let lane: any Lane
    let diskLane: any Lane
    let executor: LaneExecutor
    let calls: PeerCalls
    /// What a member needs of this node: whichever cluster it is a member of.
    let surroundings: ClusterMember.Surroundings
    let core: Guarded<Core>
    /// What the other nodes said of themselves.
    let board = StatisticsBoard()

    /// Reads the state back, or makes the one of a new node.
    package init(
        settings: Settings,
        environment: Environment,
        dataPlane: any DataPlane,
        passwords: PasswordVerifier,
        probe: any NodeProbe
    ) throws(ClusterError) {
        self.settings = settings
        self.environment = environment
        self.dataPlane = dataPlane
        self.passwords = passwords
        self.probe = probe
        let events = EventLog()
        self.events = events
        lane = environment.lanes.makeLane("control")
        diskLane = environment.lanes.makeLane("control-disk")
        executor = LaneExecutor(lane)
        transport = PeerTransport(environment: environment)
        calls = PeerCalls(over: transport, lane: lane)
        sampler = StatisticsSampler(time: environment.time, lane: lane)
        surroundings = ClusterMember.Surroundings(
            environment: environment,
            lane: lane,
            diskLane: diskLane,
            calls: calls,
            dataPlane: dataPlane,
            directory: settings.directory,
            memoryQuota: settings.memoryQuota,
            tell: { Self.tell($0, $1, $2, environment, events) }
        )
        let member = try ClusterMember.restore(surroundings)
        try member.start()
        core = Guarded(Core(state: member.state, member: member))
        member.log.follower = self
    }

    /// As of now; it is another one after joining a cluster or leaving one.
    var member: ClusterMember { core.withLock { $0.member } }

    /// The number of this node in its cluster.
    package var thisNode: NodeNumber { member.node }

    /// The state as of now.
    package var state: ClusterState { core.withLock { $0.state } }

    /// How new it is, without a copy of it; nil before provisioning.
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
    /// For durations: nobody sets it.
    package var monotonicNanoseconds: UInt64 { environment.time.monotonicNanoseconds() }

    // MARK: Life

    /// Has the data plane open every bucket and know every user: before it listens, so that no
    /// client is told that a bucket is unknown that is only not there yet.
    ///
    /// A bucket that cannot be opened does not keep the others from serving: it shows as failed.
    package func openBuckets() {
        let state = state
        let isAlone = isAlone
        followMemcachedListener()
        // Before the others have promised anything, the map here may be one of long ago.
        if !isAlone { dataPlane.setLease(endNanoseconds: 0) }
        // What others have agreed on since may have made more buckets than are known here.
        if isAlone { dataPlane.retain(only: state.buckets.map(\.settings)) }
        if let administrator = state.administrator {
            dataPlane.setCredentials(user: administrator.name, stored: administrator.stored)
        }
        if state.node(number: thisNode)?.membership == .active {
            for bucket in state.buckets { open(bucket, of: state, isNew: false) }
        }
        core.withLock { core in
            core.isFollowing = isAlone
            core.opened = state
        }
        if !isAlone { member.actsAsOf(state.index) }
        lookAfterCopies()
    }

    /// Without anybody in its configuration it is not alone: it was invited, and waits.
    var isAlone: Bool { member.driver.status.configuration.members.count == 1 }

    /// Claims the port for other nodes.
    package func listenForPeers(on address: SocketAddress) throws(NetworkError) -> UInt16 {
        try transport.listen(on: address).port
    }

    /// Takes the addresses this node really got, publishes configurations, begins to serve.
    package func start(host: String, ports: NodePorts) async throws(ClusterError) {
        core.withLock { $0.address = (host, ports) }
        await onControl { self.connect() }
        if isAlone {
            try await announceAddress()
        } else {
            // The others may be down: the address is told as soon as it can be.
            executor.spawn {
                await self.followWhenCurrent()
                // What it knew when it started may be of before another start.
                if !self.isKnownByItsAddress { await self.announceUntilKnown() }
            }
            executor.spawn { await self.announceUntilKnown() }
        }
        publishAll()
        let now = environment.time.monotonicNanoseconds()
        core.withLock {
            $0.isServing = true
            $0.startedNanoseconds = max(now, 1)
        }
        sampler.start(reading: dataPlane) { [weak self] in
            self?.state.buckets.map(\.settings.name) ?? []
        }
        startStatistics()
        let name = state.node(number: thisNode)?.otpNode ?? ""
        tell(.info, .node, "Node \(name) serves.")
        if let flaw = memoryFlaw { tell(.warning, .settings, flaw) }
    }

    /// A cluster invited this node, and none of its metadata has come.
    var isInvited: Bool { member.driver.status.configuration.members.isEmpty }

    private func announceUntilKnown() async {
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

    /// Begins to talk to the other nodes, and to lead if it comes to that; on the control lane.
    func connect() {
        let member = member
        let orchestrator = Orchestrator(member, executor: executor)
        core.withLock { $0.orchestrator = orchestrator }
        member.driver.onChange = { [weak orchestrator, weak member] _ in
            member?.beats.membersChanged()
            orchestrator?.notice()
        }
        calls.observe { [weak self] event in self?.peerEvent(event) }
        calls.handleStrangers(PeerKind.engage) { [weak self] _, bytes, answer in
            self?.engaged(bytes, answer)
        }
        calls.handleCalls(PeerKind.leader) { [weak orchestrator] _, bytes, answer in
            guard let orchestrator, let request = LeaderRequest(bytes: bytes) else {
                return answer(LeaderAnswer.refused("nonsense").bytes)
            }
            orchestrator.executor.spawn { answer(await orchestrator.answer(request).bytes) }
        }
        handleStatistics()
        handleHistories()
        handleEvents()
        handleCompaction()
        handleDocuments()
        handleEpochs()
        member.connect()
        orchestrator.start()
    }

    /// Has every stream end and every new request refused; what is under way may still propose.
    package func beginStop() {
        let waiters = core.withLock { core in
            core.isServing = false
            return core.watch.change()
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Ends the control lane; once is enough, twice does no harm.
    ///
    /// The data plane is stopped by whoever made it.
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
            // Answers everybody who waits: nobody must wait for a lane that has ended.
            member.stop()
            self.calls.stop()
        }
        if let orchestrator { executor.spawn { await orchestrator.stop() } }
        transport.stop()
        lane.stop()
        diskLane.stop()
    }

    // MARK: Changes

    /// What came of a proposal.
    package enum Outcome: Sendable {
        case done
        case refused(ClusterRefusal)
        /// Agreed on, but the data plane could not follow, and it was taken back.
        case failed(DataPlaneError)
    }

    /// Has a command agreed on, applied and carried out.
    package func propose(_ command: ClusterCommand) async throws(ClusterError) -> Outcome {
        guard !core.withLock({ $0.isStopped }) else { throw .stopping }
        let carried = try await member.carry(command)
        if let failure = carried.failure {
            if case .createBucket(let bucket) = command, state.nodes.count == 1 {
                try await takeBack(bucket.settings)
            }
            return .failed(failure)
        }
        if case .refused(let refusal) = carried.outcome { return .refused(refusal) }
        return .done
    }

    /// A bucket that cannot be opened must not stay behind: nobody could use or explain it.
    private func takeBack(_ settings: BucketSettings) async throws(ClusterError) {
        for phase in [BucketStep.Phase.begin, .end] {
            let step = BucketStep(name: settings.name, uuid: settings.uuid, phase: phase)
            _ = try await member.carry(.deleteBucket(step))
        }
    }

    /// The state, with everything that was agreed on before this was asked.
    ///
    /// - Throws: Where no majority answers in time: then only `state` can be had, as it was here.
    package func readCurrent(
        timeout nanoseconds: UInt64 = 500_000_000
    ) async throws(ClusterError) -> ClusterState {
        guard !core.withLock({ $0.isStopped }) else { throw .stopping }
        _ = try await member.driver.readIndex(timeout: nanoseconds)
        return state
    }

    /// What this node may never forget.
    package var controlStore: ControlStore { member.store }

    /// How this node stands among those that decide.
    package var raftStatus: RaftStatus { member.driver.status }

    /// All that it keeps of the log, for simulations: they have one thread.
    package var raftLog: RaftLog { member.driver.log }

    /// Tells the operator, in the log and under `/logs`.
    package func tell(_ severity: Severity, _ kind: EventLog.Kind, _ text: String) {
        Self.tell(severity, kind, text, environment, events)
    }

    private static func tell(
        _ severity: Severity,
        _ kind: EventLog.Kind,
        _ text: String,
        _ environment: Environment,
        _ events: EventLog
    ) {
        if environment.trace.threshold <= severity {
            environment.trace.tell(severity, "cluster", text)
        }
        let now = environment.time.wallNanoseconds() / 1_000_000
        events.append(severity, kind, text, atMilliseconds: now)
    }
}
