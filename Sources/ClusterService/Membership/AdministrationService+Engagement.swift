internal import Bytes
internal import Credentials
internal import Orchestration
internal import Seams
internal import Vocabulary

/// Being taken in by a cluster, and being left out by one; on the control lane.
extension AdministrationService {
    /// A cluster invites this node: it forgets its own group, and waits for that one's metadata.
    func engaged(_ bytes: [UInt8], _ answer: @escaping PeerCalls.Answer) {
        guard let message = EngageMessage(bytes: bytes) else {
            return answer(EngageAnswer(refusal: "The invitation makes no sense.").bytes)
        }
        guard !state.isProvisioned, beginChanging() else {
            return answer(EngageAnswer(refusal: "The node is provisioned already.").bytes)
        }
        let old = member
        old.stop()
        let (identity, store, quota) = (old.identity, old.store, surroundings.memoryQuota)
        beginAgain(behind: old) { () throws(ClusterError) in
            try ClusterMember.join(message, as: identity, store, memoryQuota: quota)
        } done: { [weak self] failure in
            guard let self else { return }
            if let failure {
                tell(.error, .node, "This node could not join: \(failure)")
                goBack(behind: old)
                return answer(EngageAnswer(refusal: failure.description).bytes)
            }
            tell(.info, .node, "This node was invited by a cluster, as number \(message.number).")
            answer(EngageAnswer().bytes)
        }
    }

    /// Whether this node may become another member now: nothing else changes what it is until then.
    private func beginChanging() -> Bool {
        core.withLock { core in
            guard !core.isAdopting, !core.isStopped else { return false }
            core.isAdopting = true
            return true
        }
    }

    /// Has the disk begin another history, behind whatever the stopped member had on its way there, and
    /// a member of it take that one's place.
    ///
    /// - Parameters:
    ///   - old: The member that was stopped.
    ///   - begin: Runs on the lane of the disk; says who the node is from then on.
    ///   - done: On the control lane, with what kept it from being; then the node still has no member.
    private func beginAgain(
        behind old: ClusterMember,
        _ begin: @escaping @Sendable () throws(ClusterError) -> NodeIdentity,
        done: @escaping @Sendable (ClusterError?) -> Void
    ) {
        diskLane.post { [weak self] in
            let result = Result { () throws(ClusterError) in try begin() }
            self?.lane.post { [weak self] in
                guard let self, !core.withLock({ $0.isStopped }) else { return }
                do throws(ClusterError) {
                    let identity = try result.get()
                    try replace(by: ClusterMember(identity, old.store, surroundings))
                } catch {
                    return done(error)
                }
                core.withLock { $0.isAdopting = false }
                done(nil)
            }
        }
    }

    /// The node is what its disk says, whatever it was about to become; tried every second.
    private func goBack(behind old: ClusterMember) {
        let store = old.store
        beginAgain(behind: old) { () throws(ClusterError) in
            try ClusterMember.identity(in: store)
        } done: { [weak self] failure in
            guard let self, let failure else { return }
            let again = "It tries again every second."
            tell(.error, .node, "The node could not begin again: \(failure). \(again)")
            lane.post(after: Self.secondAttempt) { [weak self] in self?.goBack(behind: old) }
        }
    }

    private static var secondAttempt: UInt64 { 1_000_000_000 }

    /// Another member takes the place of the one that was stopped.
    ///
    /// - Parameters:
    ///   - new: The other member, which has not begun yet.
    ///   - held: The entry that the copies here act by until whoever calls has them follow; nil where
    ///     there are none.
    /// - Throws: What keeps it from beginning: it cannot read what it has on disk.
    func replace(by new: ClusterMember, held: UInt64? = nil) throws(ClusterError) {
        let (orchestrator, opened) = core.withLock { core in
            (core.orchestrator, core.isFollowing ? held : core.opened?.index)
        }
        new.actsAsOf(opened, isWhole: false)
        if let orchestrator { executor.spawn { await orchestrator.stop() } }
        try new.start()
        new.log.follower = self
        core.withLock { core in
            core.member = new
            core.state = new.state
        }
        connect()
        publishAll()
        tellWatchers()
        // Who waited for what was agreed on meanwhile waited for the one before.
        if !core.withLock({ $0.isFollowing }) { executor.spawn { await self.followWhenCurrent() } }
    }

    /// What connections say of the others: a proof that this node was left out ends its membership.
    func peerEvent(_ event: PeerEvent) {
        if case .failed(let node, let failure) = event {
            board.core.withLock { $0.failures[node] = failure.description }
        }
        switch event {
        case .failed(let node, .refused(let refusal)):
            switch refusal {
            case .removed: leave()
            case .notExpected: mayBeBehind(node)
            default: break
            }
        case .disconnected(let node), .dropped(let node):
            member.driver.unreachable(node)
        case .connected(let node):
            board.core.withLock { $0.failures[node] = nil }
            tellStatistics(to: node)
            tellPlace(to: node)
        default: break
        }
    }

    /// This node is no member any more: what it holds is nobody's, and it may be added anew.
    ///
    /// - Parameter isAlone: The node leaves only if the cluster has no other node by then.
    func leave(ifAlone isAlone: Bool = false) {
        let old = member
        guard state.isProvisioned || isInvited, !core.withLock({ $0.isStopped }) else { return }
        tell(
            .warning,
            .node,
            isInvited
                ? "The cluster that invited this node has given it up: it is a new node again."
                : "This node was taken out of its cluster: its documents are removed."
        )
        // Not in the middle of applying the entry that says so.
        lane.post { [weak self] in
            guard let self, member === old, !isAlone || state.nodes.count <= 1, beginChanging()
            else { return }
            let isElsewhere = state.nodes.contains { $0.number != self.thisNode }
            for bucket in state.buckets {
                if isElsewhere {
                    dataPlane.giveUp(bucket: bucket.settings.name)
                } else {
                    dataPlane.delete(bucket: bucket.settings.name)
                }
                sampler.forget(bucket: bucket.settings.name)
            }
            if let administrator = state.administrator {
                dataPlane.setCredentials(user: administrator.name, stored: nil)
            }
            old.stop()
            beginAnew(behind: old)
        }
    }

    /// What was before is forgotten; tried every second where the disk does not take that.
    private func beginAnew(behind old: ClusterMember) {
        let (store, entropy) = (old.store, environment.entropy)
        let quota = surroundings.memoryQuota
        beginAgain(behind: old) { () throws(ClusterError) in
            try ClusterMember.reset(store, entropy, memoryQuota: quota)
        } done: { [weak self] failure in
            guard let self else { return }
            if let failure {
                let again = "It tries again every second."
                tell(.error, .node, "The node could not begin anew: \(failure). \(again)")
                lane.post(after: Self.secondAttempt) { [weak self] in
                    self?.beginAnew(behind: old)
                }
                return
            }
            executor.spawn {
                do throws(ClusterError) {
                    try await self.announceAddress()
                } catch {
                    self.tell(.error, .node, "The node could not begin anew: \(error)")
                }
            }
        }
    }

    /// Makes a node of no cluster out of this one, whatever it is now.
    package func resetNode() async -> MembershipOutcome {
        // Invited by somebody who died since, it waits for a cluster that will not come.
        guard state.isProvisioned || isInvited else { return .done("") }
        guard state.nodes.count <= 1 else { return .refused(Self.hasOthers) }
        await onControl { self.leave(ifAlone: true) }
        let isOver = await whenChanged(within: 10_000_000_000) { [weak self] state in
            state.nodes.count > 1 || !state.isProvisioned && self?.isInvited == false
        }
        // A node that was added meanwhile keeps this one in the cluster.
        guard state.nodes.count <= 1 else { return .refused(Self.hasOthers) }
        return isOver ? .done("") : .failed("The node could not be reset: see its log.")
    }

    private static let hasOthers =
        "This node is part of a cluster with others: rebalance it out, or have another node fail it "
        + "over and eject it."
}
