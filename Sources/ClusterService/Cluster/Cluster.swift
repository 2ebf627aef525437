package import Bytes
package import Consensus
package import Orchestration
package import Persistence
package import Seams
package import Vocabulary

/// The agreed state on this node, and the only way to change it.
///
/// A majority of the voters stores a command on disk before any node applies it. Nodes apply
/// commands in the order of the log. All of this runs on the control lane. The services of the
/// subjects (buckets, users, membership and so on) share it.
///
/// - A request is answered only after its change is on this node's disk.
package final class Cluster: Sendable {
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
        /// The error that keeps this node from following, as a sentence for an operator; nil if the
        /// node follows, or only waits for other nodes.
        var unfollowed: String?
        var openings = BucketOpenings()
        /// The address at which this node listens.
        var address: AddressService.Address?
    }

    package let settings: Settings
    package let dataPlane: any DataPlane
    package let events = EventLog()
    /// Connections to the other nodes, shared with the data plane.
    package let transport: PeerTransport
    /// Streams to other nodes, for services beside this one.
    package var streams: any NodeStreams { transport }
    package let initToken: InitToken
    let environment: Environment
    let lane: any Lane
    let diskLane: any Lane
    let executor: LaneExecutor
    let calls: PeerCalls
    /// The parts of the process that its successive members share.
    let dependencies: ClusterMember.Dependencies
    let core: Guarded<Core>

    /// Restores the node's state, or creates that of a new node.
    ///
    /// - Throws: `ClusterError` if the state cannot be read or written.
    init(
        _ settings: Settings,
        _ environment: Environment,
        _ dataPlane: any DataPlane
    ) throws(ClusterError) {
        self.settings = settings
        self.environment = environment
        self.dataPlane = dataPlane
        initToken = InitToken(in: settings.directory, environment)
        lane = environment.lanes.makeLane("control")
        diskLane = environment.lanes.makeLane("control-disk")
        executor = LaneExecutor(lane)
        transport = PeerTransport(
            environment: environment,
            limits: PeerLimits(within: environment.descriptors.plan)
        )
        calls = PeerCalls(over: transport, lane: lane)
        dependencies = ClusterMember.Dependencies(
            environment: environment,
            lane: lane,
            diskLane: diskLane,
            calls: calls,
            dataPlane: dataPlane,
            directory: settings.directory,
            memoryQuota: settings.memoryQuota,
            level: settings.level,
            logEvent: { [events] in events.log($0, $1, $2, environment) }
        )
        let member = try ClusterMember.restore(dependencies)
        try member.start()
        core = Guarded(Core(state: member.state, member: member))
    }

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

    var isStopped: Bool { core.withLock { $0.isStopped } }
    var isFollowing: Bool { core.withLock { $0.isFollowing } }

    /// Seconds since `start`.
    package var uptimeSeconds: UInt64 {
        let started = core.withLock { $0.startedNanoseconds }
        return started == 0
            ? 0 : (environment.time.monotonicNanoseconds() - started) / 1_000_000_000
    }

    package var wallMilliseconds: UInt64 { environment.time.wallNanoseconds() / 1_000_000 }
    /// For durations: unlike the wall clock it is never set.
    package var monotonicNanoseconds: UInt64 { environment.time.monotonicNanoseconds() }

    /// Whether this node is the only member.
    ///
    /// False after an invitation, when the configuration is still empty.
    var isAlone: Bool { member.driver.status.configuration.members.count == 1 }

    /// Whether a cluster has invited this node and the cluster's metadata has not arrived yet.
    var isInvited: Bool { member.driver.status.configuration.members.isEmpty }

    /// Runs `work` on the control lane and waits for it.
    func onControl<Result: Sendable>(_ work: @escaping @Sendable () -> Result) async -> Result {
        await withUnsafeContinuation { waiter in
            lane.post { waiter.resume(returning: work()) }
        }
    }

    /// Ends every stream and refuses new requests; requests under way may still propose.
    func beginStop() {
        let wakes = core.withLock { core in
            core.isServing = false
            return core.watch.change()
        }
        for wake in wakes { wake() }
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
        guard !isStopped else { throw .stopping }
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
        guard !isStopped else { throw .stopping }
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

/// Parts of the applied state that requests read, without a copy of the state.
///
/// A copy counts references to all its parts. A short view query needs the parts below several times.
extension Cluster {
    /// The revision of a bucket's cluster map; `epoch` is compared first.
    package struct MapRevision: Equatable, Sendable {
        package let epoch: UInt64
        package let revision: UInt64

        package init(epoch: UInt64, revision: UInt64) {
            self.epoch = epoch
            self.revision = revision
        }
    }

    /// The revision of the map of the bucket with this UUID; nil if there is no such bucket.
    package func mapRevision(ofBucket uuid: String) -> MapRevision? {
        core.withLock { core in
            guard let place = core.state.buckets.firstIndex(where: { $0.settings.uuid == uuid })
            else { return nil }
            return MapRevision(
                epoch: core.state.revEpoch,
                revision: core.state.buckets[place].rev
            )
        }
    }

    /// The UUID of the bucket `name`, if it has the design document; nil if there is no such bucket or
    /// document.
    ///
    /// - Parameters:
    ///   - name: The bucket's name.
    ///   - document: The design document's name, without `_design/`.
    /// - Returns: The UUID.
    package func uuid(ofBucket name: String, withDesignDocument document: String) -> String? {
        core.withLock { core in
            guard let place = core.state.buckets.firstIndex(where: { $0.settings.name == name }),
                core.state.buckets[place].designDocuments.contains(where: { $0.isNamed(document) })
            else { return nil }
            return core.state.buckets[place].settings.uuid
        }
    }

    /// How many nodes the cluster has beside this one.
    package var otherNodesCount: Int { core.withLock { max(0, $0.state.nodes.count - 1) } }

    /// Whether the cluster has several nodes, so that this node's state may be behind.
    package var hasSeveralNodes: Bool { otherNodesCount > 0 }

    /// A node that is silent for this time is shown as down, without statistics.
    private static var silenceNanosecondsMax: UInt64 { 1_500_000_000 }

    func isSilent(_ node: NodeNumber) -> Bool {
        member.beats.silence(of: node) >= Self.silenceNanosecondsMax
    }

    /// The current leader; nil if this node knows of none.
    package var orchestratorNode: NodeNumber? { member.driver.status.leader }

    /// Random hexadecimal digits for sessions and tokens, two for each byte.
    package func token(bytes: Int) -> String { environment.entropy.hex(bytes) }

    package var adminPort: UInt16 { state.node(number: thisNode)?.ports.admin ?? 0 }

    /// The file system that holds the data, in bytes; nil if the disk does not report it.
    package var diskSpace: (free: UInt64, total: UInt64)? {
        try? environment.disk.space(settings.directory)
    }

    /// Runs `work` on the control lane after a pause; never if the lane stands still or is stopped.
    package func runOnControl(
        afterNanoseconds pause: UInt64,
        _ work: @escaping @Sendable () -> Void
    ) {
        lane.post(after: pause, work)
    }

    /// The descriptors of this process, which all ports share.
    package var descriptors: Descriptors { environment.descriptors }
}
