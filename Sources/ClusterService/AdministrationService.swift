internal import Bytes
package import Credentials
package import Orchestration
package import Seams
internal import Vocabulary

/// The cluster's truth on this node: agreed, kept on disk, carried out.
///
/// A command is applied to a copy of the state, written to disk, and only then made the state and
/// carried out: whoever is told "done" finds it done after a crash. Commands run one at a time on
/// the control lane. With more nodes, Raft takes the place of `commit`'s first half.
///
/// - Nothing is answered before it is on disk.
/// - The data plane is told of a bucket before its configuration is published, so that a client
///   that learns of a bucket can select it.
/// - A bucket whose data plane refuses to open it is taken back.
package final class AdministrationService: Sendable {
    /// What the operator and the machine say, and the state does not hold.
    package struct Settings: Sendable {
        /// Where the state is kept; made where it is missing.
        package var directory: String
        /// For documents, in bytes, where nobody has set it yet.
        package var memoryQuota: UInt64
        /// Bytes of memory that the machine, or the container, gives us.
        package var memoryTotal: UInt64

        package init(directory: String, memoryQuota: UInt64, memoryTotal: UInt64) {
            self.directory = directory
            self.memoryQuota = memoryQuota
            self.memoryTotal = memoryTotal
        }
    }

    struct Core {
        var state: ClusterState
        var isServing = false
        var isStopped = false
        var startedNanoseconds: UInt64 = 0
        var watch = ChangeWatch()
        /// Who waits for what comes of a command.
        var proposals: [UInt64: CheckedContinuation<Result<Outcome, ClusterError>, Never>] = [:]
        var nextProposal: UInt64 = 0
    }

    package let settings: Settings
    package let dataPlane: any DataPlane
    package let events = EventLog()
    package let sampler: StatisticsSampler
    let environment: Environment
    let passwords: PasswordVerifier
    let lane: any Lane
    let core: Guarded<Core>
    /// The number and UUID of this node never change.
    package let thisNode: UInt16 = 0

    /// Reads the state back, or makes the one of a new node.
    package init(
        settings: Settings,
        environment: Environment,
        dataPlane: any DataPlane,
        passwords: PasswordVerifier
    ) throws(ClusterError) {
        self.settings = settings
        self.environment = environment
        self.dataPlane = dataPlane
        self.passwords = passwords
        let store = StateStore(disk: environment.disk, directory: settings.directory)
        let stored = try store.load()
        let state = stored ?? ClusterState(memoryQuota: settings.memoryQuota)
        core = Guarded(Core(state: state))
        lane = environment.lanes.makeLane("control")
        sampler = StatisticsSampler(time: environment.time, lane: lane)
    }

    /// The state as of now.
    package var state: ClusterState { core.withLock { $0.state } }

    /// `start` has been called and `beginStop` has not.
    package var isServing: Bool { core.withLock { $0.isServing } }

    /// Seconds since `start`.
    package var uptimeSeconds: UInt64 {
        let started = core.withLock { $0.startedNanoseconds }
        return started == 0
            ? 0 : (environment.time.monotonicNanoseconds() - started) / 1_000_000_000
    }

    package var wallMilliseconds: UInt64 { environment.time.wallNanoseconds() / 1_000_000 }

    // MARK: Life

    /// Has the data plane open every bucket and know every user: before it listens, so that no
    /// client is told that a bucket is unknown that is only not there yet.
    ///
    /// A bucket that cannot be opened does not keep the others from serving: it shows as failed.
    package func openBuckets() {
        let state = state
        dataPlane.retain(only: state.buckets.map(\.settings))
        if let administrator = state.administrator {
            dataPlane.setCredentials(user: administrator.name, stored: administrator.stored)
        }
        for bucket in state.buckets {
            do {
                try dataPlane.open(bucket.settings)
            } catch {
                let text = "Bucket \"\(bucket.settings.name)\" could not be opened: \(error)"
                tell(.error, .bucket, text)
            }
        }
    }

    /// Takes the addresses this node really got, publishes configurations, begins to serve.
    package func start(host: String, ports: NodePorts) async throws(ClusterError) {
        let known = state.node(number: thisNode)
        let uuid = known?.uuid ?? environment.entropy.hex(16)
        let node = NodeRecord(
            number: thisNode,
            uuid: uuid,
            host: Self.reachable(host),
            ports: ports
        )
        if node != known {
            _ = try await propose(.setNode(node))
        } else {
            publishAll()
        }
        let now = environment.time.monotonicNanoseconds()
        core.withLock {
            $0.isServing = true
            $0.startedNanoseconds = max(now, 1)
        }
        sampler.start(reading: dataPlane) { [weak self] in
            self?.state.buckets.map(\.settings.name) ?? []
        }
        tell(.info, .node, "Node \(node.otpNode) serves.")
    }

    /// Who listens on every address is known by the one a client used, as on loopback.
    private static func reachable(_ host: String) -> String {
        switch host {
        case "0.0.0.0": "127.0.0.1"
        case "::": "::1"
        default: host
        }
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
        lane.stop()
        // A command that came to the lane after its end was dropped; its sender must not wait.
        let proposals = core.withLock { core in
            defer { core.proposals = [:] }
            return core.proposals.values
        }
        for waiter in proposals { waiter.resume(returning: .failure(Self.stopping)) }
    }

    private static let stopping = ClusterError(
        code: .stopping,
        description: "the node is stopping"
    )

    // MARK: Changes

    /// What came of a proposal.
    package enum Outcome: Sendable {
        case done
        case refused(ClusterRefusal)
        /// Agreed on, but the data plane could not follow, and it was taken back.
        case failed(DataPlaneError)
    }

    /// Has a command applied, kept and carried out.
    package func propose(_ command: ClusterCommand) async throws(ClusterError) -> Outcome {
        let result: Result<Outcome, ClusterError> = await withCheckedContinuation { waiter in
            let number: UInt64? = core.withLock { core in
                guard !core.isStopped else { return nil }
                core.nextProposal += 1
                core.proposals[core.nextProposal] = waiter
                return core.nextProposal
            }
            guard let number else { return waiter.resume(returning: .failure(Self.stopping)) }
            lane.post {
                let result = self.commit(command)
                let waiter = self.core.withLock { $0.proposals.removeValue(forKey: number) }
                waiter?.resume(returning: result)
            }
        }
        return try result.get()
    }

    /// Tells the operator, in the log and under `/logs`.
    package func tell(_ severity: Severity, _ kind: EventLog.Kind, _ text: String) {
        if environment.trace.threshold <= severity {
            environment.trace.tell(severity, "cluster", text)
        }
        events.append(severity, kind, text, atMilliseconds: wallMilliseconds)
    }
}
