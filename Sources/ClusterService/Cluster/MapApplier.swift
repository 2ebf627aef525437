internal import Bytes
internal import Orchestration
internal import Persistence
internal import Seams
internal import Vocabulary

/// The buckets of the agreed state that are not open.
struct BucketOpenings: Sendable {
    /// Buckets of the entry that is being carried out, which the data plane opens next.
    var creating: Set<String> = []
    /// By name: buckets that could not be opened, with the reason; the opening is retried.
    var failed: [String: String] = [:]
}

/// Carries out applied entries on the data plane; on the control lane.
package final class MapApplier: Sendable {
    struct Core {
        /// Whether a majority of several voters confirmed the list of buckets since this start.
        ///
        /// False on a node that started alone: an operator may have replaced its state by an older
        /// one, which no other node can correct.
        var hasHeardOthers = false
        /// The state from which the buckets were opened; in a cluster, nil once this node follows.
        var opened: ClusterState?
        /// By bucket UUID: seals from before a restart, while this node begins to follow.
        var seals: [String: [FencedVBucket]] = [:]
        /// Whether the timer of `activateLonePendingCopies` is armed.
        var isCopyTimerArmed = false
        /// Ends this node's membership.
        var leave: @Sendable () -> Void = {}
    }

    let cluster: Cluster
    let users: UserService
    let addresses: AddressService
    let certificates: CertificateService
    let statistics: StatisticsService
    let core = Guarded(Core())

    init(
        _ cluster: Cluster,
        _ users: UserService,
        _ addresses: AddressService,
        _ certificates: CertificateService,
        _ statistics: StatisticsService
    ) {
        (self.cluster, self.users, self.addresses) = (cluster, users, addresses)
        (self.certificates, self.statistics) = (certificates, statistics)
    }

    /// Opens every bucket and sets every user's credentials on the data plane.
    ///
    /// Call it before the data service listens, so that no client gets the answer that an existing
    /// bucket is unknown.
    ///
    /// A bucket that cannot be opened is shown as failed; all other buckets are served.
    package func openBuckets() {
        let state = cluster.state
        let isAlone = cluster.isAlone
        followMemcachedListener()
        // Until voters promise a lease, this node's map may be out of date, so it serves nothing.
        if !isAlone { cluster.dataPlane.setLease(endNanoseconds: 0) }
        // Only on a lone node: in a cluster, the log may have buckets that are not applied here
        // yet.
        if isAlone { cluster.dataPlane.retain(only: state.buckets.map(\.settings)) }
        users.followPasswordRules(of: state)
        users.addUsers(of: state)
        if state.node(number: cluster.thisNode)?.membership == .active {
            for bucket in state.buckets { open(bucket, of: state, isNew: false) }
        }
        core.withLock { $0.opened = state }
        cluster.core.withLock { $0.isFollowing = isAlone }
        if isAlone { cluster.notifyStateObserver() } else { cluster.member.actsAsOf(state.index) }
        activateLonePendingCopies()
    }

    /// Writes an event of a change of users, the administrator or members.
    ///
    /// Called before `stateChanged`, for a proposal that was applied or refused.
    func proposalApplied(
        _ envelope: ClusterEnvelope,
        at index: UInt64,
        _ outcome: ClusterOutcome,
        before: ClusterState
    ) {
        // Events of entries that were carried out before the last start were written then.
        guard index > cluster.member.driver.restoredCommit,
            let trail = ChangeTrail(envelope, outcome, before: before)
        else { return }
        cluster.logEvent(trail.severity, trail.kind, index: index, trail.text)
    }

    /// An entry was applied.
    ///
    /// - Returns: Why the data plane could not carry it out; nil if it did.
    func stateChanged(
        from before: ClusterState,
        to now: ClusterState,
        _ effects: [ClusterEffect]
    ) -> DataPlaneError? {
        cluster.core.withLock { core in
            core.state = now
            for case .bucketCreated(let name) in effects { core.openings.creating.insert(name) }
        }
        defer {
            cluster.core.withLock { $0.openings.creating = [] }
            cluster.notifyStateObserver()
        }
        if before.isProvisioned != now.isProvisioned { cluster.reconcileInitToken() }
        if effects.contains(.settingsChanged) || effects.contains(.nodesChanged) {
            certificates.updateCertificates()
        }
        guard cluster.isFollowing else {
            if effects.contains(.nodesChanged) { cluster.member.nodesChanged() }
            // This change may remove the voter configuration that validated our lease (one- or
            // two-voter clusters).
            cluster.member.beats.reportLease()
            return nil
        }
        var failure: DataPlaneError?
        for effect in effects {
            if let error = carryOut(effect, before: before, now: now) { failure = error }
        }
        let member = cluster.member
        member.ownership.applied(through: now.index)
        if !effects.isEmpty {
            // A rebalance applies hundreds of entries: an armed timer covers them all.
            if !core.withLock({ $0.isCopyTimerArmed }) { activateLonePendingCopies() }
            member.beats.membersChanged()
            cluster.core.withLock { $0.orchestrator }?.requestRound()
        }
        cluster.wakeWatchers()
        return failure
    }

    /// Carries out the difference between two states, after a snapshot was received.
    func stateReplaced(from before: ClusterState, by now: ClusterState) {
        cluster.core.withLock { $0.state = now }
        defer { cluster.notifyStateObserver() }
        if before.isProvisioned != now.isProvisioned { cluster.reconcileInitToken() }
        certificates.updateCertificates()
        guard cluster.isFollowing else { return }
        users.replaceUsers(before, now)
        for bucket in before.buckets
        where !now.buckets.contains(where: { $0.settings.uuid == bucket.settings.uuid }) {
            close(bucket.settings.name)
        }
        followNodes(before, now)
        let beginsEmpty = beginsEmpty(before, now)
        for bucket in now.buckets {
            let isKnown = before.buckets.contains { $0.settings.uuid == bucket.settings.uuid }
            if isKnown {
                cluster.dataPlane.change(bucket.settings)
                if beginsEmpty { dropWhatIsToBeBuilt(bucket.settings.name, now) }
                follow(bucket.settings.name, from: before, now)
            }
        }
        publishAll()
        cluster.member.nodesChanged()
        cluster.member.ownership.applied(through: now.index)
        activateLonePendingCopies()
        cluster.core.withLock { $0.orchestrator }?.requestRound()
        cluster.wakeWatchers()
    }

    /// Whether this node was failed over while it was down, and a rebalance adds it back with full
    /// recovery.
    private func beginsEmpty(_ before: ClusterState, _ now: ClusterState) -> Bool {
        guard let own = now.node(number: cluster.thisNode), let rebalance = now.rebalance else {
            return false
        }
        let wasActive = before.node(number: cluster.thisNode)?.membership == .active
        return own.membership == .active && (!wasActive || own.fencedAt > before.index)
            && rebalance.kept.contains(cluster.thisNode)
            && !rebalance.delta.contains(cluster.thisNode)
    }

    /// Deletes this node's copies that are in no chain: a full recovery builds them from seqno
    /// zero.
    private func dropWhatIsToBeBuilt(_ name: String, _ now: ClusterState) {
        guard var assignment = now.assignment(ofBucket: name) else { return }
        for number in assignment.vBuckets.indices {
            assignment.vBuckets[number].builders.removeAll { $0 == cluster.thisNode }
        }
        follow(assignment)
    }

    /// Whether the bucket's entry is newer than anything this node carried out before its restart.
    private func isNew(_ bucket: BucketRecord) -> Bool {
        let known = cluster.member.driver.restoredIndex
        return known > 0 && bucket.placements.allSatisfy { $0.origin > known }
    }

    private func reportRaisedLevel(_ before: ClusterState, _ now: ClusterState) {
        guard now.featureLevel > before.featureLevel, now.nodes.count > 1 else { return }
        cluster.logEvent(
            .info,
            .node,
            "The cluster's feature level was raised from \(before.featureLevel.number) to "
                + "\(now.featureLevel.number): all nodes support it. Nodes that do not are refused "
                + "from now on."
        )
    }

    private func carryOut(
        _ effect: ClusterEffect,
        before: ClusterState,
        now: ClusterState
    ) -> DataPlaneError? {
        switch effect {
        case .nodesChanged, .epochChanged:
            reportRaisedLevel(before, now)
            followNodes(before, now)
            cluster.member.nodesChanged()
            publishAll()
        case .nodeRemoved(let node):
            if node == cluster.thisNode { core.withLock { $0.leave }() }
        case .settingsChanged: users.followPasswordRules(of: now)
        case .nodeAdded, .deposed, .rebalanceChanged, .leftOut,
            .designDocumentsChanged:
            break
        case .administratorChanged: users.updateAdministrator(before, now)
        case .usersChanged(let ids): users.updateUsers(ids, of: now)
        case .bucketCreated(let name):
            guard let bucket = now.bucket(named: name), isServing(now) else { break }
            if let error = open(bucket, of: now, isNew: true) { return error }
            publish(bucket, of: now)
            statistics.sendStatisticsWhenServing(name)
        case .bucketChanged(let name):
            guard let bucket = now.bucket(named: name) else { break }
            cluster.dataPlane.change(bucket.settings)
            publish(bucket, of: now)
        case .assignmentsChanged(let name, _):
            guard let bucket = now.bucket(named: name) else { break }
            follow(name, from: before, now)
            // Most steps of a move change nothing that a client sees.
            let old = before.bucket(named: name)
            if old?.rev != bucket.rev || old?.settings.uuid != bucket.settings.uuid {
                publish(bucket, of: now)
            }
        case .bucketFlushed(let name):
            // Include a failed-over node, which may still serve vBuckets.
            guard now.bucket(named: name) != nil,
                isServing(now) || cluster.dataPlane.status(ofBucket: name) != nil
            else { break }
            var failure: DataPlaneError?
            do throws(DataPlaneError) {
                try cluster.dataPlane.flush(bucket: name)
            } catch {
                failure = error
                cluster.logEvent(
                    .error,
                    .bucket,
                    of: name,
                    "Bucket \"\(name)\" could not be emptied at once: \(error). Its copies are "
                        + "emptied one by one."
                )
            }
            // Follow in any case: copies from before the flush do not count and must not be served.
            follow(name, from: before, now)
            return failure
        case .bucketDeleted(let name): close(name)
        }
        return nil
    }

    // MARK: Buckets

    /// Whether this node is an active member: then every bucket is open, with or without copies.
    private func isServing(_ state: ClusterState) -> Bool {
        state.node(number: cluster.thisNode)?.membership == .active
    }

    private func followNodes(_ before: ClusterState, _ now: ClusterState) {
        // The recovery type decides which of its old copies a returning node keeps.
        let (old, own) = (before.node(number: cluster.thisNode), now.node(number: cluster.thisNode))
        if old?.membership != own?.membership || old?.recovery != own?.recovery {
            for bucket in now.buckets
            where cluster.dataPlane.status(ofBucket: bucket.settings.name) != nil {
                guard let assignment = now.assignment(ofBucket: bucket.settings.name) else {
                    continue
                }
                follow(assignment)
            }
        }
        guard isServing(now) else { return }
        for bucket in now.buckets
        where cluster.dataPlane.status(ofBucket: bucket.settings.name) == nil {
            open(bucket, of: now, isNew: isNew(bucket))
        }
    }

    @discardableResult
    func open(_ bucket: BucketRecord, of state: ClusterState, isNew: Bool) -> DataPlaneError? {
        let name = bucket.settings.name
        guard let assignment = state.assignment(ofBucket: name) else { return nil }
        do {
            let seals = isNew ? [] : try cluster.member.store.seals(ofBucket: bucket.settings.uuid)
            try cluster.dataPlane.open(
                BucketOpening(
                    settings: bucket.settings,
                    assignment: assignment,
                    own: cluster.thisNode,
                    isNew: isNew,
                    seals: seals.map { FencedVBucket($0.vBucket, fence: $0.fence) },
                    isCurrent: core.withLock { $0.hasHeardOthers }
                )
            )
            statistics.sampler.begin(bucket: name, cluster.dataPlane.statistics(ofBucket: name))
            return nil
        } catch {
            let reason = (error as? DataPlaneError) ?? DataPlaneError("\(error)")
            // A new bucket of a lone node is deleted again instead.
            if !isNew || state.nodes.count > 1 { reopenLater(name, reason) }
            return reason
        }
    }

    /// The pause before a bucket that could not be opened is opened again.
    private static var reopenNanoseconds: UInt64 { 5_000_000_000 }

    private func reopenLater(_ name: String, _ error: DataPlaneError) {
        let isFirst = cluster.core.withLock { core in
            core.openings.failed.updateValue(error.description, forKey: name) == nil
        }
        if isFirst {
            cluster.logEvent(
                .error,
                .bucket,
                of: name,
                "Bucket \"\(name)\" could not be opened: \(error). The node retries every "
                    + "\(Self.reopenNanoseconds / 1_000_000_000) seconds."
            )
        }
        cluster.lane.post(after: Self.reopenNanoseconds) { [weak self] in self?.reopen(name) }
    }

    private func reopen(_ name: String) {
        let isWanted = cluster.core.withLock { core in
            core.openings.failed.removeValue(forKey: name) != nil && !core.isStopped
        }
        guard isWanted, let bucket = cluster.state.bucket(named: name), isServing(cluster.state),
            cluster.dataPlane.status(ofBucket: name) == nil,
            open(bucket, of: cluster.state, isNew: false) == nil
        else { return }
        cluster.logEvent(.info, .bucket, of: name, "Bucket \"\(name)\" was opened after all.")
        publish(bucket, of: cluster.state)
        activateLonePendingCopies()
        cluster.wakeWatchers()
    }

    private func close(_ name: String) {
        cluster.core.withLock { _ = $0.openings.failed.removeValue(forKey: name) }
        cluster.dataPlane.delete(bucket: name)
        statistics.sampler.forget(bucket: name)
    }

    private func follow(_ name: String, from before: ClusterState, _ now: ClusterState) {
        guard let assignment = now.assignment(ofBucket: name), let bucket = now.bucket(named: name)
        else { return }
        follow(assignment)
        let old = before.bucket(named: name)
        let known = old?.settings.uuid == bucket.settings.uuid ? old : nil
        activateCopies(bucket, knowing: known)
    }

    // MARK: Copies

    /// Activates copies whose content follows from the placement alone, without reports of other
    /// copies.
    private func activateCopies(_ bucket: BucketRecord, knowing before: BucketRecord?) {
        let own = cluster.thisNode
        // A copy of a placement up to this index may have served before the restart, and lost its
        // changes in a crash.
        let known = cluster.member.driver.restoredIndex
        var due: [CopyActivation] = []
        for (vBucket, placement) in bucket.numberedPlacements {
            guard placement.chain.first == own, placement.isConfirmed,
                let old = before?[vBucket], old.fence != placement.fence
            else { continue }
            let reason: CopyActivation.Reason? =
                switch placement.cause {
                case .created, .flushed:
                    placement.fence > known ? .promotion(expected: nil) : nil
                case .takenOver: placement.expected.map { .takeover(final: $0.covered) }
                case .resumed: .resumption(fence: old.fence)
                case .promoted: nil
                }
            guard let reason else { continue }
            due.append(CopyActivation(vBucket, placement.fence, reason: reason))
        }
        if !due.isEmpty { _ = cluster.dataPlane.activate(bucket: bucket.settings.name, due) }
    }

    /// Activates each pending copy that is the only copy of its chain.
    ///
    /// Repeated by a timer until no copy is pending, because a copy may still be read from disk.
    func activateLonePendingCopies() {
        guard !cluster.dataPlane.isReady else { return }
        let own = cluster.thisNode
        for bucket in cluster.state.buckets {
            let name = bucket.settings.name
            let waiting = Set(
                cluster.dataPlane.reports(bucket: name, of: nil)
                    .filter { $0.state == .pending }.map(\.vBucket)
            )
            let alone = bucket.numberedPlacements.compactMap { vBucket, placement in
                placement.chain == [own] && placement.isConfirmed && !placement.isJoint
                    && placement.former == nil && waiting.contains(vBucket)
                    ? CopyActivation(vBucket, placement.fence, reason: .promotion(expected: nil))
                    : nil
            }
            if !alone.isEmpty { _ = cluster.dataPlane.activate(bucket: name, alone) }
        }
        let isStopped = cluster.isStopped
        let isFirst = core.withLock { core in
            defer { core.isCopyTimerArmed = true }
            return !core.isCopyTimerArmed && !isStopped
        }
        guard isFirst, !cluster.dataPlane.isReady else {
            if isFirst { core.withLock { $0.isCopyTimerArmed = false } }
            return
        }
        cluster.lane.post(after: 20_000_000) { [weak self] in
            self?.core.withLock { $0.isCopyTimerArmed = false }
            self?.activateLonePendingCopies()
        }
    }

    // MARK: Publishing to clients

    func publishAll() {
        let state = cluster.state
        followMemcachedListener()
        users.followPasswordRules(of: state)
        users.followMembers(of: state)
        cluster.dataPlane.publish(
            global: RenderedConfiguration(
                epoch: Int64(state.revEpoch),
                revision: Int64(state.rev),
                json: ConfigurationJSON.global(state, on: cluster.thisNode, host: .placeholder)
            )
        )
        for bucket in state.buckets { publish(bucket, of: state) }
    }

    private func publish(_ bucket: BucketRecord, of state: ClusterState) {
        let json = ConfigurationJSON.bucket(
            bucket,
            of: state,
            on: cluster.thisNode,
            host: .placeholder
        )
        cluster.dataPlane.publish(
            RenderedConfiguration(
                epoch: Int64(state.revEpoch),
                revision: Int64(bucket.rev),
                json: json
            ),
            ofBucket: bucket.settings.name
        )
    }
}
