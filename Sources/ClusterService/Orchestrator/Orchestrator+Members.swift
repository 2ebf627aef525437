internal import Consensus
internal import Orchestration
internal import Seams
internal import Vocabulary

/// Rounds for the group's voters, joining nodes and deleted buckets.
extension Orchestrator {
    /// A node that has not joined after this time is removed again.
    private static let joinTimeoutNanoseconds: UInt64 = 60_000_000_000
    /// Longer than the requester's timeout, so that the requester does not report a deletion as
    /// done that ended by this timeout alone.
    private static let deletionTimeoutNanoseconds: UInt64 = 35_000_000_000

    /// Makes the Raft configuration match the state: active nodes vote, others learn.
    func reconcileMembers() async {
        let status = member.driver.status
        let configuration = status.configuration
        guard !configuration.isJoint else { return }
        let leaving = leavingVoters
        let plan = VoterPlan(
            state.members.map { node in
                VoterPlan.Member(
                    node.number,
                    group: node.group,
                    isActive: node.membership == .active && !leaving.contains(node.number)
                        && (configuration.voters.contains(node.number) || mayVote(node.number))
                )
            },
            present: configuration.voters
        )
        guard !plan.voters.isEmpty,
            plan.voters != configuration.voters || plan.learners != configuration.learners
        else { return }
        // A leader that is to be removed first hands its leadership over.
        if !plan.voters.contains(member.node) {
            let dead = deadNodes()
            let successors = plan.voters.filter {
                configuration.voters.contains($0) && !dead.contains($0)
                    && member.driver.hasHeard($0)
            }
            let furthest = successors.map { member.driver.matched($0) }.max()
            let successor = successors.first { member.driver.matched($0) == furthest }
            if let successor { member.driver.transfer(to: successor) }
            // If no remaining node votes yet, add their votes before removing others.
            let isBare = !plan.voters.contains { configuration.voters.contains($0) }
            if isBare { await change(voters: plan.voters.map { .addVoter($0) }) }
            return
        }
        var steps: [ConfigurationChange.Step] = []
        for node in plan.voters where !configuration.voters.contains(node) {
            steps.append(.addVoter(node))
        }
        for node in plan.learners where !configuration.learners.contains(node) {
            steps.append(.addLearner(node))
        }
        let wanted = plan.voters + plan.learners
        for node in configuration.members where !wanted.contains(node) {
            steps.append(.remove(node))
        }
        await change(voters: steps)
    }

    private func change(voters steps: [ConfigurationChange.Step]) async {
        do throws(ClusterError) {
            _ = try await member.driver.change(ConfigurationChange(steps))
        } catch {
            member.logEvent(
                .warning,
                .node,
                "The cluster's voters could not be changed; the change is retried: \(error)"
            )
        }
    }

    /// Whether a node without a vote may become a voter now.
    ///
    /// A voter counts for the majority. If a second voter never answered, the first could agree on
    /// nothing, not even on removing that voter.
    private func mayVote(_ node: NodeNumber) -> Bool {
        let driver = member.driver
        return driver.hasHeard(node, ticks: 5) && member.calls.isConnected(to: node)
            && driver.matched(node) + Self.entriesBehindMax >= driver.status.commit
    }

    /// A new voter catches up on so few entries in a moment.
    private static let entriesBehindMax: UInt64 = 1_000

    /// Raises the cluster's feature level once all members announce a higher one.
    func raiseFeatureLevel() async {
        guard state.announcedLevel > state.featureLevel else { return }
        await propose(.raiseFeatureLevel(state.announcedLevel))
    }

    /// Replaces the shared secret after each change of the members, and if authorities are missing or to be
    /// dropped.
    func renewSecret() async {
        guard state.isProvisioned else { return }
        let isDue = !state.secret.isFor(state.members) || member.needsAuthorities(state)
        guard isDue, let next = member.renewedSecret(state) else { return }
        // An authority that cannot be made is no reason to replace the secret again and again.
        guard next.authorities != state.secret.authorities || !next.isFor(state.secret.boxes) else {
            return
        }
        await propose(.renewSecret(next))
    }

    /// Completes joins: nodes with the metadata become members, nodes that never answer are
    /// removed.
    func finishJoins() async {
        let joining = state.nodes.filter { $0.membership == .joining }.map(\.number)
        joins = joins.filter { joining.contains($0.key) }
        for node in joining {
            let since = joins[node] ?? now
            joins[node] = since
            let matched = member.driver.status.progress.first { $0.node == node }?.progress.matched
            if let matched, matched >= state.index {
                await propose(
                    .setNodeState(NodeStateChange(number: node, membership: .inactiveAdded))
                )
            } else if now - since > Self.joinTimeoutNanoseconds {
                member.logEvent(
                    .warning,
                    .node,
                    "Node \(name(node)) did not join in time and was removed. Check that it runs, "
                        + "and add it again."
                )
                await propose(.removeNode(node))
            }
        }
    }

    /// Forgets deleted buckets, and frees their names, once no node serves them.
    ///
    /// Each node deletes its own files.
    ///
    /// A node that does not answer the leader may have a lease as long as a majority receives its
    /// beats. So the timeout counts only for nodes that a majority has not heard of; for others the
    /// name stays reserved.
    func finishDeletions() async {
        let gone = state.deletedBuckets
        deletions = deletions.filter { gone.contains($0.key) }
        for bucket in gone {
            let seen = deletions[bucket] ?? (index: state.index, at: now)
            deletions[bucket] = seen
            let isTimeoutOver = now - seen.at > Self.deletionTimeoutNanoseconds
            let isOver = state.activeNodes.allSatisfy { node in
                node.number == member.node
                    || member.beats.actsAsOf(node.number) >= seen.index
                    || isTimeoutOver && isUnheard(node.number)
            }
            guard isOver else { continue }
            await propose(
                .deleteBucket(BucketStep(name: bucket.name, uuid: bucket.uuid, phase: .end))
            )
        }
        for bucket in state.buckets {
            if let flush = bucket.flush { await finish(flush, of: bucket) }
        }
    }

    /// Whether most voters have received no beat of a node for much longer than a promise lasts:
    /// then it has no lease.
    private func isUnheard(_ node: NodeNumber) -> Bool {
        let configuration = member.driver.status.configuration
        guard !configuration.isJoint else { return false }
        let voters = configuration.voters
        let seers = member.beats.table.seers(
            of: node,
            silentFor: .init(silentNanoseconds: Self.deletionTimeoutNanoseconds),
            among: voters,
            now: now
        )
        return seers.count > voters.count / 2
    }

    /// Ends a flush once every active copy is empty under the flush's fence.
    ///
    /// A vBucket of which only failed-over nodes have data is served once such a node is recovered
    /// or removed, and the rebalance for that begins only after the flush. So the flush does not
    /// wait for it, if every node that may serve it knows of the flush.
    private func finish(_ flush: UInt64, of bucket: BucketRecord) async {
        let active = Set(bucket.placements.compactMap(\.chain.first)).sorted()
        let reports = await copies(of: bucket).reports(from: active)
        let abandoned = abandonedVBuckets(in: bucket)
        let isDone = bucket.numberedPlacements.allSatisfy { vBucket, placement in
            guard let node = placement.chain.first else { return true }
            let report = reports[node]?[vBucket]
            let isServed = report.map { $0.fence >= placement.fence && $0.state == .active }
            return isServed ?? false
                || abandoned.contains(vBucket)
                    && placement.mayServe.allSatisfy { mayServe($0, onlyAsOf: flush) }
        }
        guard isDone else { return }
        let (name, uuid) = (bucket.settings.name, bucket.settings.uuid)
        await propose(
            .flushBucket(BucketStep(name: name, uuid: uuid, phase: .end, flush: flush))
        )
    }

    /// Whether a node can serve only by the entry at `index` or a later one: its copies act by it,
    /// or a later entry deposed the node.
    private func mayServe(_ node: NodeNumber, onlyAsOf index: UInt64) -> Bool {
        // The voters promise a deposed node no lease until its copies act by that entry.
        node == member.node || member.beats.actsAsOf(node) >= index
            || state.node(number: node).map { $0.fencedAt > index } ?? true
    }
}
