internal import Bytes
internal import Credentials
internal import Orchestration
internal import Seams
internal import Vocabulary

/// Joining a cluster, and being removed from one; on the control lane.
package final class EngagementService: Sendable {
    /// The change of this node's membership, and what was logged of other nodes.
    struct Core {
        /// The key of the member that this node has requested to add it; empty before it is known.
        var expectedInviter: [UInt8]?
        /// By address: when a node was reported that was refused.
        var refusedAt: [String: UInt64] = [:]
        /// Nodes for which a feature level that is too low was logged already.
        var levelsReported: Set<NodeNumber> = []
        /// Whether this node is changing to another cluster or epoch.
        var isAdopting = false
        /// Starts to communicate with other nodes as another member.
        var connect: @Sendable () -> Void = {}
    }

    let cluster: Cluster
    let applier: MapApplier
    let addresses: AddressService
    let core = Guarded(Core())

    init(_ applier: MapApplier, _ addresses: AddressService) {
        cluster = applier.cluster
        (self.applier, self.addresses) = (applier, addresses)
    }

    /// A cluster invites this node: the node deletes its own group and waits for the cluster's
    /// metadata.
    ///
    /// A sender on another machine has to prove this node's token, or to be the member that this
    /// node's operator has named.
    func engaged(
        _ bytes: [UInt8],
        by sender: Stranger,
        _ answer: @escaping PeerCalls.Answer
    ) {
        guard let message = EngageMessage(message: bytes) else {
            return answer(EngageAnswer(refusal: "The invitation is malformed.").encoded)
        }
        guard cluster.state.isProvisioned || mayChange(sender, message.proof) else {
            reportRefusal(
                of: sender.address,
                "its invitation had no proof of this node's token"
            )
            return answer(EngageAnswer(refusal: Self.lacksToken).encoded)
        }
        guard message.level <= cluster.settings.level else {
            return answer(
                EngageAnswer(
                    refusal:
                        "The node supports feature level \(cluster.settings.level.number), and the "
                        + "cluster uses level \(message.level.number). Start a later release there."
                ).encoded
            )
        }
        guard !cluster.state.isProvisioned, beginChanging() else {
            return answer(EngageAnswer(refusal: "The node is provisioned already.").encoded)
        }
        let old = cluster.member
        old.stop()
        let (identity, store, quota) = (old.identity, old.store, cluster.dependencies.memoryQuota)
        beginAgain(behind: old) { () throws(ClusterError) in
            try ClusterMember.join(message, as: identity, store, memoryQuota: quota)
        } done: { [weak self] failure in
            guard let self else { return }
            if let failure {
                cluster.logEvent(.error, .node, "This node could not join: \(failure)")
                goBack(behind: old)
                return answer(EngageAnswer(refusal: failure.description).encoded)
            }
            cluster.logEvent(
                .info,
                .node,
                "This node was invited by a cluster, as number \(message.number)."
            )
            answer(EngageAnswer().encoded)
        }
    }

    /// Whether a node that is not known may change this one, which has no cluster.
    private func mayChange(_ sender: Stranger, _ proof: [UInt8]) -> Bool {
        if sender.isLocal { return true }
        if core.withLock({ $0.expectedInviter }) == sender.key { return true }
        let own = cluster.member.identity.secrets.publicKeys.identity
        guard let right = cluster.initToken.proof(by: .adding, adding: sender.key, waiting: own)
        else {
            return false
        }
        return areEqualInConstantTime(proof, right)
    }

    /// The event of a node that was refused, at most one a minute for each address.
    func reportRefusal(of address: SocketAddress, _ reason: String) {
        let now = cluster.monotonicNanoseconds
        let isNews = core.withLock { core in
            core.refusedAt = core.refusedAt.filter { now < $0.value + Self.refusalPause }
            // A stranger may come from any number of addresses.
            guard core.refusedAt.count < Self.refusedMax, core.refusedAt[address.host] == nil else {
                return false
            }
            core.refusedAt[address.host] = now
            return true
        }
        if isNews {
            cluster.logEvent(.warning, .node, "\(address) was refused as a node: \(reason).")
        }
    }

    private static var refusalPause: UInt64 { 60_000_000_000 }
    private static var refusedMax: Int { 64 }

    /// Describes this node to one that may add it.
    func describeSelf(
        _ bytes: [UInt8],
        to sender: Stranger,
        _ answer: @escaping PeerCalls.Answer
    ) {
        guard let message = DescribeMessage(message: bytes) else { return answer([]) }
        guard !cluster.state.isProvisioned else {
            var told = DescribeAnswer(standing: .provisioned)
            told.clusterUUID = cluster.state.uuid ?? ""
            return answer(told.encoded)
        }
        guard mayChange(sender, message.proof) else {
            reportRefusal(
                of: sender.address,
                "its request to add this node had no proof of the node's token"
            )
            return answer(DescribeAnswer(standing: .tokenNeeded).encoded)
        }
        guard let own = cluster.state.node(number: cluster.thisNode) else {
            return answer(DescribeAnswer(standing: .notReady).encoded)
        }
        var told = DescribeAnswer(standing: .waiting)
        told.description = NodeDescription(own)
        if !message.proof.isEmpty {
            let key = own.keys.identity
            told.proof =
                cluster.initToken.proof(by: .waiting, adding: sender.key, waiting: key) ?? []
        }
        answer(told.encoded)
    }

    private static let lacksToken =
        "A node without a cluster accepts an invitation from another machine only with the token of the "
        + "file \(InitToken.fileName) in its data directory. Add it with the token as password."

    /// Whether this node may change its membership now; reserves the change if so.
    func beginChanging() -> Bool {
        let isStopped = cluster.isStopped
        return core.withLock { core in
            guard !core.isAdopting, !isStopped else { return false }
            core.isAdopting = true
            return true
        }
    }

    /// Begins another history on disk, after the writes that the stopped member had under way, and
    /// replaces that member by one of the new history.
    ///
    /// - Parameters:
    ///   - old: The stopped member.
    ///   - begin: Runs on the disk's lane; returns the node's new identity.
    ///   - done: Called on the control lane with the error, if any; then the node has no member.
    private func beginAgain(
        behind old: ClusterMember,
        _ begin: @escaping @Sendable () throws(ClusterError) -> NodeIdentity,
        done: @escaping @Sendable (ClusterError?) -> Void
    ) {
        cluster.diskLane.post { [weak self] in
            let result = Result { () throws(ClusterError) in try begin() }
            self?.cluster.lane.post { [weak self] in
                guard let self, !cluster.isStopped else { return }
                do throws(ClusterError) {
                    let identity = try result.get()
                    try replace(by: ClusterMember(identity, old.store, cluster.dependencies))
                } catch {
                    return done(error)
                }
                core.withLock { $0.isAdopting = false }
                done(nil)
            }
        }
    }

    private func logRetry(after failure: String) {
        cluster.logEvent(.error, .node, failure + " The node retries every second.")
    }

    /// Restarts the member that the disk describes, after a failed change; retried every second.
    private func goBack(behind old: ClusterMember) {
        let store = old.store
        beginAgain(behind: old) { () throws(ClusterError) in
            try ClusterMember.identity(in: store)
        } done: { [weak self] failure in
            guard let self, let failure else { return }
            logRetry(after: "The node could not restart its membership: \(failure).")
            cluster.lane.post(after: Self.secondAttempt) { [weak self] in
                self?.goBack(behind: old)
            }
        }
    }

    private static var secondAttempt: UInt64 { 1_000_000_000 }

    /// Replaces the stopped member by another one.
    ///
    /// - Parameters:
    ///   - new: The other member, not started yet.
    ///   - held: The log index by which copies here act until the caller has them follow; nil if
    ///     there are no copies.
    /// - Throws: `ClusterError` if the new member cannot read its data on disk.
    func replace(by new: ClusterMember, held: UInt64? = nil) throws(ClusterError) {
        let orchestrator = cluster.core.withLock { $0.orchestrator }
        let opened = cluster.isFollowing ? held : applier.core.withLock { $0.opened?.index }
        new.actsAsOf(opened, isWhole: false)
        if let orchestrator { cluster.executor.spawn { await orchestrator.stop() } }
        try new.start()
        new.log.follower = applier
        cluster.core.withLock { core in
            core.member = new
            core.state = new.state
        }
        core.withLock { $0.connect }()
        applier.certificates.updateCertificates()
        applier.publishAll()
        cluster.notifyStateObserver()
        cluster.reconcileInitToken()
        cluster.wakeWatchers()
        // A wait for the current state ended with the previous member: start another one.
        if !cluster.isFollowing {
            cluster.executor.spawn { await self.applier.followWhenCurrent() }
        }
    }

    /// Logs that another node answers at a member's address.
    func reportOther(at node: NodeNumber) {
        guard let place = cluster.transport.address(of: node) else { return }
        reportRefusal(
            of: SocketAddress(host: place.host, port: place.port),
            "it does not have the key of node \(name(of: node)), whose address it has"
        )
    }

    /// Logs that the release of this or of the other node is too old for the cluster, and the
    /// remedy.
    func reportLevel(of other: NodeNumber, required: FeatureLevel) {
        let isOwn = cluster.settings.level < required
        let subject = isOwn ? "This node" : "Node \(name(of: other))"
        let text =
            "\(subject) is refused by the cluster, which uses feature level \(required.number): it "
            + "runs a release that supports only lower levels. Start it with the release of the "
            + "other nodes, or a later one."
        let isNews = core.withLock {
            $0.levelsReported.insert(isOwn ? cluster.thisNode : other).inserted
        }
        if isNews { cluster.logEvent(.error, .node, text) }
    }

    private func name(of node: NodeNumber) -> String {
        cluster.state.node(number: node).map { "\($0.host):\($0.ports.admin)" } ?? "\(node)"
    }

    /// Ends this node's membership: its documents are deleted, and it may be added again.
    ///
    /// - Parameter isAlone: The node leaves only if the cluster has no other node by then.
    func leave(ifAlone isAlone: Bool = false) {
        let old = cluster.member
        guard cluster.state.isProvisioned || cluster.isInvited,
            !cluster.isStopped
        else { return }
        cluster.logEvent(
            .warning,
            .node,
            cluster.isInvited
                ? "The cluster has withdrawn its invitation of this node: it is a new node again."
                : "This node was removed from its cluster: its documents are deleted."
        )
        // Deferred: the entry that removes this node is still being applied.
        cluster.lane.post { [weak self] in
            guard let self, cluster.member === old, !isAlone || cluster.state.nodes.count <= 1,
                beginChanging()
            else { return }
            let isElsewhere = cluster.state.nodes.contains { $0.number != self.cluster.thisNode }
            for bucket in cluster.state.buckets {
                if isElsewhere {
                    cluster.dataPlane.giveUp(bucket: bucket.settings.name)
                } else {
                    cluster.dataPlane.delete(bucket: bucket.settings.name)
                }
                applier.statistics.sampler.forget(bucket: bucket.settings.name)
            }
            applier.users.removeUsers(of: cluster.state)
            old.stop()
            beginAnew(behind: old)
        }
    }

    /// Deletes the membership on disk and begins as a new node; retried every second after an
    /// error.
    private func beginAnew(behind old: ClusterMember) {
        let (store, entropy) = (old.store, cluster.environment.entropy)
        let quota = cluster.dependencies.memoryQuota
        beginAgain(behind: old) { () throws(ClusterError) in
            try ClusterMember.reset(store, entropy, memoryQuota: quota)
        } done: { [weak self] failure in
            guard let self else { return }
            if let failure {
                logRetry(after: "The node could not start as a new node: \(failure).")
                cluster.lane.post(after: Self.secondAttempt) { [weak self] in
                    self?.beginAnew(behind: old)
                }
                return
            }
            cluster.executor.spawn {
                do throws(ClusterError) {
                    try await self.addresses.announceAddress()
                } catch {
                    self.logRetry(after: "The node could not start as a new node: \(error).")
                    await self.addresses.announceUntilKnown()
                }
            }
        }
    }

    /// Makes this node a new node without a cluster.
    ///
    /// - Throws: `refused` or `failed`.
    package func reset() async throws(AdministrationError) {
        // If the inviting node has failed, this node would wait for a cluster without end.
        guard cluster.state.isProvisioned || cluster.isInvited else { return }
        guard cluster.state.nodes.count <= 1 else { throw .refused(Self.hasOthers) }
        await cluster.onControl { self.leave(ifAlone: true) }
        let isOver = await cluster.whenChanged(within: 10_000_000_000) { [weak self] state in
            state.nodes.count > 1 || !state.isProvisioned && self?.cluster.isInvited == false
        }
        // If a node was added meanwhile, this node stays in the cluster.
        guard cluster.state.nodes.count <= 1 else { throw .refused(Self.hasOthers) }
        await cluster.awaitInitToken()
        guard isOver else { throw .failed("The node could not be reset. See its log.") }
    }

    private static let hasOthers =
        "This node is part of a cluster with other nodes. Rebalance it out, or fail it over and "
        + "eject it from another node."
}
