internal import Vocabulary

/// Steps that change which node may write which vBucket; each is a compare-and-set per vBucket.
extension ClusterState {
    /// Applies each step whose vBucket still has the fence and stage that the step names, and whose
    /// row has only active nodes; reports all others as left out.
    mutating func move(
        _ steps: VBucketSteps,
        _ apply: (inout VBucketPlacement, VBucketSteps.Step, BucketTargets?) -> Bool
    ) -> ClusterOutcome {
        guard let place = place(ofBucket: steps.bucket) else { return .refused(.bucketUnknown) }
        let active = activeNodes.map(\.number)
        let targets = buckets[place].targets
        var (changed, leftOut): ([VBucketID], [VBucketID]) = ([], [])
        for step in steps.steps {
            let vBucket = Int(step.vBucket.number)
            guard buckets[place].placements.indices.contains(vBucket) else {
                leftOut.append(step.vBucket)
                continue
            }
            let before = buckets[place].placements[vBucket]
            var after = before
            let isCurrent = before.fence == step.fence && before.stage == step.stage
            guard isCurrent, step.row.without(active).isEmpty, apply(&after, step, targets) else {
                leftOut.append(step.vBucket)
                continue
            }
            buckets[place].placements[vBucket] = after
            changed.append(step.vBucket)
            if before.chain != after.chain || before.copies != after.copies {
                buckets[place].rev = index
            }
        }
        var effects: [ClusterEffect] = []
        if !changed.isEmpty {
            effects.append(.assignmentsChanged(bucket: steps.bucket, changed))
        }
        if !leftOut.isEmpty { effects.append(.leftOut(bucket: steps.bucket, leftOut)) }
        return .applied(effects)
    }

    /// Whether moves record the old chain in `rowBefore`: a graceful failover does, so that a
    /// recovery can use the node's copies.
    private var isRemembering: Bool { rebalance?.kind == .gracefulFailover }

    mutating func join(_ steps: VBucketSteps) -> ClusterOutcome {
        move(steps) { $0.joint(to: $1.row, target: $2, $1.vBucket) }
    }

    /// Leaves out a vBucket whose active node was failed over since: the promotion queries both
    /// chains.
    mutating func finish(_ steps: VBucketSteps) -> ClusterOutcome {
        move(steps) { [index, isRemembering, gone] placement, _, _ in
            guard let active = placement.chain.first, !gone.contains(active) else { return false }
            return placement.finish(at: index, remembering: isRemembering)
        }
    }

    /// Leaves out a vBucket whose active node was failed over since: the target chain may contain
    /// that node as well, and no other step would remove it.
    mutating func takeOver(_ steps: VBucketSteps) -> ClusterOutcome {
        var formers: Set<NodeNumber> = []
        let outcome = move(steps) { [index, isRemembering, gone] placement, step, _ in
            let former = placement.chain.first
            guard let former, !gone.contains(former) else { return false }
            let isTaken = placement.takeOver(
                at: index,
                final: step.position,
                remembering: isRemembering
            )
            if isTaken { formers.insert(former) }
            return isTaken
        }
        fence(formers)
        return outcome
    }

    mutating func promote(_ steps: VBucketSteps) -> ClusterOutcome {
        var deposed: Set<NodeNumber> = []
        let outcome = move(steps) { [index] placement, step, _ in
            let active = placement.chain.first
            let isPromoted = placement.promote(
                at: index,
                row: step.row,
                position: step.position,
                deposes: steps.deposes
            )
            if isPromoted, let active, active != step.row.first { deposed.insert(active) }
            return isPromoted
        }
        let chosen = steps.steps.compactMap(\.row.first)
        fence(deposed.union(Set(steps.deposes).subtracting(chosen)))
        guard case .applied(let effects) = outcome, !deposed.isEmpty else { return outcome }
        return .applied(effects + [.deposed(deposed.sorted())])
    }

    /// Leaves out a vBucket whose promoted node was failed over since: its basis is queried again.
    mutating func confirm(_ steps: VBucketSteps) -> ClusterOutcome {
        move(steps) { [index, gone] placement, _, _ in
            guard let chosen = placement.chain.first, !gone.contains(chosen) else { return false }
            return placement.confirm(at: index, without: gone)
        }
    }

    mutating func resume(_ steps: VBucketSteps) -> ClusterOutcome {
        move(steps) { [index, gone] placement, _, _ in placement.resume(at: index, without: gone) }
    }

    /// Leaves out a vBucket whose active node was failed over since: the promotion queries the
    /// former active copy.
    mutating func release(_ steps: VBucketSteps) -> ClusterOutcome {
        move(steps) { [gone] placement, _, _ in
            guard let active = placement.chain.first, !gone.contains(active) else { return false }
            return placement.release()
        }
    }

    /// Abandons the data of the deposed nodes, including data that they still serve because they
    /// have not learned of their failover.
    ///
    /// Leaves out a vBucket with a copy on an awaited node.
    mutating func recreate(_ steps: VBucketSteps) -> ClusterOutcome {
        defer { fence(Set(steps.deposes)) }
        let replicas = bucket(named: steps.bucket)?.settings.replicas ?? 0
        return move(steps) { [index, awaited] placement, step, targets in
            let copies = targets?.copies ?? UInt8(1 + replicas)
            guard placement.chain.isEmpty, !placement.isLeft(to: awaited), !step.row.isEmpty,
                step.row.count <= Int(copies)
            else { return false }
            placement = VBucketPlacement(chain: step.row, copies: copies, index: index)
            return true
        }
    }

    mutating func failOver(_ step: FailoverStep) -> ClusterOutcome {
        for number in step.nodes {
            guard let node = node(number: number) else { return .refused(.nodeUnknown) }
            guard node.membership == .active else { return .refused(.nodeNotActive) }
        }
        let left = activeNodes.map(\.number).filter { !step.nodes.contains($0) }
        guard !left.isEmpty else { return .refused(.lastActiveNode) }
        // The proposer knew which vBuckets the nodes served then; the entry may be applied much
        // later.
        guard step.mayLose || !serves(anyOf: step.nodes) else { return .refused(.nodeInUse) }
        for place in nodes.indices where step.nodes.contains(nodes[place].number) {
            nodes[place].membership = .inactiveFailed
            nodes[place].recovery = .none
            nodes[place].fencedAt = index
            if step.isAutomatic, autoFailoverCount < .max { autoFailoverCount += 1 }
        }
        counters.count(.failover)
        counters.count(.failoverNode, by: step.nodes.count)
        nodesMoved()
        rebalance?.kept.removeAll(where: step.nodes.contains)
        rebalance?.ejected.removeAll(where: step.nodes.contains)
        rebalance?.delta.removeAll(where: step.nodes.contains)
        let gone = gone
        var effects = [ClusterEffect.nodesChanged, .deposed(step.nodes)]
        for place in buckets.indices { effects += lose(gone, ofBucketAt: place) }
        return .applied(effects)
    }

    /// Nodes that are not active members, also if their recovery type is set: their copies do not
    /// count.
    var gone: [NodeNumber] { nodes.filter { $0.membership != .active }.map(\.number) }

    /// Whether one of the nodes is active for a vBucket.
    private func serves(anyOf numbers: [NodeNumber]) -> Bool {
        buckets.contains { bucket in
            bucket.placements.contains { $0.chain.first.map(numbers.contains) ?? false }
        }
    }

    mutating func lose(
        _ gone: [NodeNumber],
        ofBucketAt place: Int
    ) -> [ClusterEffect] {
        var (changed, undecided): ([VBucketID], [VBucketID]) = ([], [])
        for number in buckets[place].placements.indices {
            let vBucket = VBucketID(UInt16(number))
            var isChanged = false
            if let target = buckets[place].targets?.rows[number] {
                let left = target.without(gone)
                isChanged = left != target
                buckets[place].targets?.rows[number] = left
            }
            switch buckets[place].placements[number].lose(gone, at: index) {
            case .none: break
            case .changed: isChanged = true
            case .undecided: undecided.append(vBucket)
            }
            if isChanged { changed.append(vBucket) }
        }
        let name = buckets[place].settings.name
        var effects: [ClusterEffect] = []
        if !changed.isEmpty { effects.append(.assignmentsChanged(bucket: name, changed)) }
        if !undecided.isEmpty { effects.append(.leftOut(bucket: name, undecided)) }
        return effects
    }

    private mutating func fence(_ numbers: Set<NodeNumber>) {
        for place in nodes.indices where numbers.contains(nodes[place].number) {
            nodes[place].fencedAt = index
        }
    }

    /// How an entry affects lease promises; voters need this before the entry is applied.
    package static func effect(of command: ClusterCommand) -> LeasePromises.Effect {
        switch command {
        case .promote(let steps), .recreate(let steps):
            steps.deposes.isEmpty ? .none : .deposes(steps.deposes)
        case .failOver(let step): step.nodes.isEmpty ? .none : .deposes(step.nodes)
        default: .none
        }
    }
}
