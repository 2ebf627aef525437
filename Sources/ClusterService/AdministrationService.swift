internal import Bytes
package import Credentials
package import Orchestration
package import Seams
package import Vocabulary

/// The cluster's administration on this node: agreed, stored on disk, carried out.
///
/// `Cluster` is what the services of all subjects share. This node carries out on the data plane
/// what it applies (`MapApplier`), and then answers the request.
///
/// - The data plane opens a bucket before the bucket's configuration is published, so that a client
///   can select every bucket in a configuration.
/// - If the data plane cannot open a new bucket, a lone node deletes the bucket again.
package final class AdministrationService: Sendable {
    package let cluster: Cluster
    package let settings: SettingsService
    package let users: UserService
    package let buckets: BucketService
    package let compaction: CompactionService
    package let designDocuments: DesignDocumentService
    package let documents: DocumentAccess
    package let feeds: FeedService
    package let statistics: StatisticsService
    package let health: HealthService
    package let certificates: CertificateService
    package let membership: MembershipService
    package let addresses: AddressService
    package let engagement: EngagementService
    package let epochs: EpochService
    package let applier: MapApplier

    /// Restores the node's state, or creates that of a new node.
    ///
    /// - Throws: `ClusterError` if the state cannot be read or written.
    package init(
        settings: Cluster.Settings,
        environment: Environment,
        dataPlane: any DataPlane,
        passwords: PasswordVerifier,
        probe: any NodeProbe
    ) throws(ClusterError) {
        let derivation = PasswordDerivation(environment)
        cluster = try Cluster(settings, environment, dataPlane)
        certificates = try CertificateService(cluster)
        do throws(DiskError) {
            try cluster.initToken.reconcile(isNeeded: !cluster.state.isProvisioned)
        } catch {
            throw ClusterError(code: .disk, description: error.description)
        }
        users = UserService(cluster, passwords, derivation)
        self.settings = SettingsService(cluster, users)
        statistics = StatisticsService(cluster)
        addresses = AddressService(cluster, probe)
        applier = MapApplier(cluster, users, addresses, certificates, statistics)
        engagement = EngagementService(applier, addresses)
        epochs = EpochService(engagement)
        membership = MembershipService(epochs, users)
        health = HealthService(statistics, certificates)
        buckets = BucketService(cluster, users)
        designDocuments = DesignDocumentService(cluster)
        compaction = CompactionService(statistics, designDocuments)
        documents = DocumentAccess(cluster)
        feeds = FeedService(cluster)
        let member = cluster.member
        member.log.follower = applier
        applier.core.withLock { $0.leave = { [weak engagement] in engagement?.leave() } }
        engagement.core.withLock { $0.connect = { [weak self] in self?.connect() } }
        if let node = member.state.node(number: member.node) {
            environment.trace.identify(node: node.otpNode)
        }
        certificates.watchCertificates()
    }

    /// The number of this node in its cluster.
    package var thisNode: NodeNumber { cluster.thisNode }

    /// The applied state.
    package var state: ClusterState { cluster.state }

    // MARK: Life

    /// Listens for other nodes; returns the port.
    ///
    /// - Throws: `NetworkError` if the address cannot be listened on.
    package func listenForPeers(on address: SocketAddress) throws(NetworkError) -> UInt16 {
        try cluster.transport.listen(on: address).port
    }

    /// Starts to serve under the addresses at which the node listens, and publishes configurations.
    ///
    /// - Throws: `ClusterError` if a lone node cannot store its address.
    package func start(host: String, ports: NodePorts) async throws(ClusterError) {
        cluster.core.withLock { $0.address = AddressService.Address(host: host, ports: ports) }
        certificates.updateCertificates()
        await cluster.onControl { self.connect() }
        if cluster.isAlone {
            try await addresses.announceAddress()
        } else {
            // Other nodes may be down, so announce the address in the background, with retries.
            cluster.executor.spawn {
                await self.applier.followWhenCurrent()
                // The first announcement compares the address with the state at the start, which
                // may lack the previous run's address. Compare it with the current state as well.
                if !self.addresses.isKnownAsItIs { await self.addresses.announceUntilKnown() }
            }
            cluster.executor.spawn { await self.addresses.announceUntilKnown() }
        }
        // In the order of applied changes: here, an older state could replace a newer one for good.
        await cluster.onControl { self.applier.publishAll() }
        let now = cluster.monotonicNanoseconds
        cluster.core.withLock {
            $0.isServing = true
            $0.startedNanoseconds = max(now, 1)
        }
        statistics.start()
        let name = state.node(number: thisNode)?.otpNode ?? ""
        cluster.logEvent(.info, .node, "Node \(name) has started to serve.")
        if let flaw = health.memoryFlaw { cluster.logEvent(.warning, .settings, flaw) }
    }

    /// Starts to communicate with other nodes, and an orchestrator; on the control lane.
    func connect() {
        let member = cluster.member
        let orchestrator = Orchestrator(member, executor: cluster.executor)
        cluster.core.withLock { $0.orchestrator = orchestrator }
        member.driver.onChange = { [weak orchestrator, weak member] _ in
            member?.beats.membersChanged()
            orchestrator?.requestRound()
        }
        cluster.calls.observe { [weak self] event in self?.peerEvent(event) }
        cluster.calls.handleStrangers(PeerKind.engage) { [weak self] sender, bytes, answer in
            self?.engagement.engaged(bytes, by: sender, answer)
        }
        cluster.calls.handleStrangers(PeerKind.describe) { [weak self] sender, bytes, answer in
            self?.engagement.describeSelf(bytes, to: sender, answer)
        }
        cluster.calls.handleStrangers(PeerKind.join) { [weak self] sender, bytes, answer in
            self?.membership.joinRequested(bytes, by: sender, answer)
        }
        cluster.calls.handleCalls(PeerKind.leader) { [weak orchestrator] _, bytes, answer in
            guard let orchestrator, let request = LeaderRequest(message: bytes) else {
                return answer(LeaderAnswer.refused("The call is malformed.").encoded)
            }
            orchestrator.executor.spawn { answer(await orchestrator.answer(request).encoded) }
        }
        statistics.handleCalls()
        statistics.handleHistories()
        statistics.handleEvents()
        certificates.handleCertificates()
        compaction.handleBucketOrders()
        designDocuments.handleViewCompaction()
        documents.handleDocuments()
        if let answer = cluster.settings.answerChanges { cluster.streams.serve(.feeds, answer) }
        epochs.handleCalls()
        member.connect()
        orchestrator.start()
    }

    /// Handles connection events; a proved refusal `removed` ends this node's membership.
    func peerEvent(_ event: PeerEvent) {
        switch event {
        case .refused(let address, .wrongKey):
            engagement.reportRefusal(
                of: address,
                "it does not have the key of the member that it says it is"
            )
        case .failed(let node, let failure):
            cluster.member.beats.attemptEnded(to: node, isRefused: failure.isByKernel)
            guard case .refused(let refusal) = failure else { break }
            switch refusal {
            case .wrongKey: engagement.reportOther(at: node)
            case .removed: engagement.leave()
            case .levelTooLow(let required): engagement.reportLevel(of: node, required: required)
            case .notExpected: epochs.mayBeBehind(node)
            default: break
            }
        case .disconnected(let node), .dropped(let node):
            cluster.member.driver.unreachable(node)
        case .connected(let node):
            cluster.member.beats.attemptEnded(to: node, isRefused: false)
            statistics.sendStatistics(to: node)
            addresses.sendPlace(to: node)
        default: break
        }
    }

    /// Ends every stream and refuses new requests; requests under way may still propose.
    package func beginStop() { cluster.beginStop() }

    /// Ends the control lane; further calls have no effect.
    ///
    /// The owner of the data plane stops the data plane.
    package func stop() {
        beginStop()
        let isFirst = cluster.core.withLock { core in
            defer { core.isStopped = true }
            return !core.isStopped
        }
        guard isFirst else { return }
        statistics.sampler.stop()
        let (member, orchestrator) = cluster.core.withLock { ($0.member, $0.orchestrator) }
        cluster.lane.post {
            // Fail all waiting callers: an ended lane would never resume them.
            member.stop()
            self.cluster.calls.stop()
        }
        if let orchestrator { cluster.executor.spawn { await orchestrator.stop() } }
        cluster.transport.stop()
        users.derivation.stop()
        cluster.lane.stop()
        cluster.diskLane.stop()
    }
}
