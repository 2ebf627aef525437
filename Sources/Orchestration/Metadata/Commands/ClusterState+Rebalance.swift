internal import Vocabulary

/// Start, targets, progress and end of a rebalance; its moves are steps of vBuckets.
extension ClusterState {
    mutating func start(_ record: RebalanceRecord) -> ClusterOutcome {
        guard isProvisioned else { return .refused(.notInitialised) }
        guard rebalance == nil else { return .refused(.rebalanceRunning) }
        guard buckets.allSatisfy({ $0.flush == nil }) else { return .refused(.flushRunning) }
        let isGraceful = record.kind == .gracefulFailover
        let all = nodes.filter { node in
            isGraceful ? node.membership == .active : node.membership != .joining
        }
        let named = record.kept + record.ejected
        guard !record.kept.isEmpty, named.count == all.count,
            Set(named) == Set(all.map(\.number)), !isGraceful || !record.ejected.isEmpty
        else { return .refused(.nodesMismatch) }
        // Left-behind nodes are no members and are about to be removed.
        guard leftBehind.isEmpty else { return .refused(.nodeNotActive) }
        // A failed-over node returns only with the recovery type that an operator chose for it.
        let isFailed = nodes.contains {
            $0.membership == .inactiveFailed && record.kept.contains($0.number)
        }
        guard !isFailed else { return .refused(.nodeNotActive) }
        var running = record
        running.bucket = nil
        running.delta = []
        running.reached = RebalanceMark()
        for place in nodes.indices
        where record.kept.contains(nodes[place].number) && nodes[place].membership != .active {
            if nodes[place].recovery == .delta { running.delta.append(nodes[place].number) }
            nodes[place].membership = .active
            nodes[place].recovery = .none
        }
        if retry?.id != record.id { retry = nil }
        rebalance = running
        counters.count(.started(record.kind))
        nodesMoved()
        var effects = [ClusterEffect.rebalanceChanged, .nodesChanged]
        let gone = gone
        for place in buckets.indices {
            effects += restore(from: running.delta, at: place)
            // Chains of returning active nodes drop peers that stay failed over: no move starts on
            // a chain with such a peer, and no other step removes it.
            effects += lose(gone, ofBucketAt: place).filter { effect in
                if case .leftOut = effect { false } else { true }
            }
        }
        return .applied(effects)
    }

    /// Restores vBuckets whose only copies are on the returning nodes.
    ///
    /// This is part of the entry that readmits the nodes: however the rebalance ends, these
    /// vBuckets must have a chain.
    private mutating func restore(
        from returning: [NodeNumber],
        at place: Int
    ) -> [ClusterEffect] {
        changePlacements(ofBucketAt: place) { [index] in $0.restore(returning, at: index) }
    }

    mutating func set(_ change: TargetChange) -> ClusterOutcome {
        guard let rebalance else { return .refused(.rebalanceNotRunning) }
        guard let place = place(ofBucket: change.bucket) else { return .refused(.bucketUnknown) }
        let copies = Int(change.targets.copies)
        let isPossible = change.targets.rows.allSatisfy { row in
            row.count <= copies && row.allSatisfy { rebalance.kept.contains($0) && isActive($0) }
        }
        guard isPossible, (1...NodeChain.countMax).contains(copies),
            change.targets.rows.count == buckets[place].placements.count
        else { return .refused(.rowsImpossible) }
        var effects = [ClusterEffect.rebalanceChanged]
        for other in buckets.indices where other != place { effects += clearTargets(at: other) }
        buckets[place].targets = change.targets
        buckets[place].targets?.index = index
        buckets[place].rev = index
        self.rebalance?.bucket = change.bucket
        return .applied(effects + [assignmentsChanged(at: place)])
    }

    mutating func raiseProgress(_ step: ProgressStep) -> ClusterOutcome {
        guard rebalance?.id == step.rebalance else { return .refused(.rebalanceNotRunning) }
        rebalance?.reached.raise(to: step.reached)
        return .applied([.rebalanceChanged])
    }

    mutating func end(_ outcome: RebalanceOutcome) -> ClusterOutcome {
        guard let record = rebalance, record.id == outcome.id else {
            return .refused(.rebalanceNotRunning)
        }
        var effects = [ClusterEffect.rebalanceChanged]
        for place in buckets.indices {
            resumeMoves(at: place)
            if buckets[place].targets != nil {
                buckets[place].targets = nil
                buckets[place].rev = index
            }
            // Include buckets without targets: an earlier leader may have left moves half done,
            // and nodes kept copies while the rebalance ran.
            effects.append(assignmentsChanged(at: place))
        }
        // Maps listed ejected nodes until now, although they hold no copies: `servers(of:)`.
        if !record.ejected.isEmpty { nodesMoved() }
        retry = RebalanceRetry(after: record, outcome, before: retry, settings.retry)
        rebalance = nil
        lastRebalance = outcome
        lastRebalance?.kind = record.kind
        counters.count(.ended(record.kind, outcome.ending))
        guard outcome.ending == .completed else { return .applied(effects) }
        if record.kind == .rebalance { autoFailoverCount = 0 }
        // The last active node stays, even if all kept nodes were failed over meanwhile.
        for number in record.ejected
        where !holdsData(number) && activeNodes.contains(where: { $0.number != number }) {
            effects += leave(number, record.kind)
        }
        if record.kind == .rebalance { forgetRowsBefore() }
        return .applied(effects)
    }

    /// Reverts vBuckets in a joint phase to the old chain, or to the target chain if the old one is
    /// lost.
    private mutating func resumeMoves(at place: Int) {
        let gone = gone
        for vBucket in buckets[place].placements.indices
        where buckets[place].placements[vBucket].isJoint {
            let chain = buckets[place].placements[vBucket].chain
            _ = buckets[place].placements[vBucket].resume(at: index, without: gone)
            if buckets[place].placements[vBucket].chain != chain { buckets[place].rev = index }
        }
    }

    mutating func dropRetry(_ id: String) -> ClusterOutcome {
        guard let retry, retry.id == id, rebalance == nil else {
            return .refused(.rebalanceNotRunning)
        }
        self.retry = nil
        return .applied([.rebalanceChanged])
    }

    /// Clears `rowBefore` where no node of it may return.
    ///
    /// A node failed over while the rebalance ran was neither kept nor ejected and may have the
    /// last copies.
    private mutating func forgetRowsBefore() {
        let returning = returning
        for place in buckets.indices {
            for vBucket in buckets[place].placements.indices {
                let row = buckets[place].placements[vBucket].rowBefore
                guard !row.isEmpty, !row.contains(where: returning.contains) else { continue }
                buckets[place].placements[vBucket].rowBefore = NodeChain()
            }
        }
    }

    private mutating func leave(
        _ number: NodeNumber,
        _ kind: RebalanceRecord.Kind
    ) -> [ClusterEffect] {
        nodesMoved()
        guard kind == .gracefulFailover else {
            forget(number)
            return [.nodeRemoved(number), .nodesChanged]
        }
        if let place = place(ofNode: number) {
            nodes[place].membership = .inactiveFailed
            nodes[place].fencedAt = index
        }
        return [.nodesChanged]
    }

    private mutating func clearTargets(at place: Int) -> [ClusterEffect] {
        guard buckets[place].targets != nil else { return [] }
        buckets[place].targets = nil
        buckets[place].rev = index
        return [assignmentsChanged(at: place)]
    }

    private func assignmentsChanged(at place: Int) -> ClusterEffect {
        let all = buckets[place].placements.indices.map { VBucketID(UInt16($0)) }
        return .assignmentsChanged(bucket: buckets[place].settings.name, all)
    }
}
