package import Vocabulary

/// Adds, changes and removes nodes and server groups.
extension ClusterState {
    mutating func add(_ new: NewNode) -> ClusterOutcome {
        let isKnown = nodes.contains { node in
            node.uuid == new.uuid || node.keys.identity == new.keys.identity
                || node.host == new.host && node.ports.admin == new.ports.admin
        }
        guard !isKnown else { return .refused(.nodeExists) }
        guard groups.contains(where: { $0.name == new.group }) else {
            return .refused(.groupUnknown)
        }
        guard new.namesRevision ?? namesRevision == namesRevision else {
            return .refused(.changedMeanwhile)
        }
        let number = nextNodeNumber
        guard number.value < .max else { return .refused(.nodeNumbersUsedUp) }
        // The first node alone decides what its cluster may use.
        if nodes.isEmpty { featureLevel = max(featureLevel, new.level) }
        guard new.level >= featureLevel else { return .refused(.levelTooLow) }
        var node = NodeRecord()
        node.number = number
        node.uuid = new.uuid
        node.host = new.host
        node.ports = new.ports
        node.keys = new.keys
        node.group = new.group
        node.services = new.services
        node.memoryTotal = new.memoryTotal
        node.level = new.level
        node.membership = nodes.isEmpty ? .active : .joining
        nodes.append(node)
        nextNodeNumber = NodeNumber(number.value + 1)
        if node.membership == .active { nodesMoved() }
        return .applied([.nodeAdded(number), .nodesChanged])
    }

    mutating func set(_ address: NodeAddress) -> ClusterOutcome {
        guard let place = place(ofNode: address.number) else { return .refused(.nodeUnknown) }
        guard !address.isOfLoneNode || nodes.count == 1 else { return .refused(.changedMeanwhile) }
        let level = address.level ?? nodes[place].level
        guard level >= featureLevel else { return .refused(.levelTooLow) }
        let isOfOtherLevel = nodes[place].level != level
        nodes[place].level = level
        if address.memoryTotal != 0 { nodes[place].memoryTotal = address.memoryTotal }
        let isThere = nodes[place].host == address.host && nodes[place].ports == address.ports
        // The leader looks whether that allows a higher level for all.
        guard !isThere else { return .applied(isOfOtherLevel ? [.settingsChanged] : []) }
        nodes[place].host = address.host
        nodes[place].ports = address.ports
        // Bucket configurations contain hosts and ports too.
        nodesMoved()
        return .applied([.nodesChanged])
    }

    mutating func set(_ change: AlternateChange) -> ClusterOutcome {
        guard let place = place(ofNode: change.number) else { return .refused(.nodeUnknown) }
        nodes[place].alternate = change.address
        nodesMoved()
        return .applied([.nodesChanged])
    }

    mutating func set(_ change: NodeStateChange) -> ClusterOutcome {
        guard let place = place(ofNode: change.number) else { return .refused(.nodeUnknown) }
        let (membership, recovery) = (nodes[place].membership, nodes[place].recovery)
        let isPossible =
            switch (change.membership, change.recovery) {
            case (.inactiveAdded, .none): membership == .joining
            case (.inactiveAdded, .full), (.inactiveAdded, .delta):
                membership == .inactiveFailed || membership == .inactiveAdded && recovery != .none
            case (.inactiveFailed, .none): membership == .inactiveAdded && recovery != .none
            default: false
            }
        guard isPossible else { return .refused(.nodeStateImpossible) }
        nodes[place].membership = change.membership
        nodes[place].recovery = change.recovery
        return .applied([.nodesChanged])
    }

    mutating func remove(_ number: NodeNumber) -> ClusterOutcome {
        guard let node = node(number: number) else { return .refused(.nodeUnknown) }
        let isLast = node.membership == .active && activeNodes.count == 1
        let isMoving = rebalance.map { $0.kept.contains(number) || $0.ejected.contains(number) }
        guard !isLast, isMoving != true, !holdsData(number) else { return .refused(.nodeInUse) }
        forget(number)
        if node.membership == .active { nodesMoved() }
        return .applied([.nodeRemoved(number), .nodesChanged])
    }

    /// Removes every reference to a node that holds no copy.
    mutating func forget(_ number: NodeNumber) {
        nodes.removeAll { $0.number == number }
        proposals.forget(number)
        for bucket in buckets.indices {
            for place in buckets[bucket].placements.indices
            where buckets[bucket].placements[place].rowBefore.contains(number) {
                let row = buckets[bucket].placements[place].rowBefore
                buckets[bucket].placements[place].rowBefore = row.without([number])
            }
        }
    }

    /// Whether the node has, or may have, a copy that counts.
    package func holdsData(_ number: NodeNumber) -> Bool {
        buckets.contains { $0.placements.contains { $0.names(number) } }
    }

    mutating func set(_ layout: GroupLayout) -> ClusterOutcome {
        guard layout.revision ?? groupsRevision == groupsRevision else {
            return .refused(.changedMeanwhile)
        }
        let names = Set(layout.groups.map(\.name))
        guard names.count == layout.groups.count, !names.isEmpty else {
            return .refused(.groupUnknown)
        }
        var next = nodes
        for member in layout.members {
            guard let place = place(ofNode: member.node) else { return .refused(.nodeUnknown) }
            next[place].group = member.group
        }
        // A renamed group, recognised by its UUID, keeps its nodes.
        for place in next.indices where !names.contains(next[place].group) {
            let old = groups.first { $0.name == next[place].group }
            guard let new = layout.groups.first(where: { $0.uuid == old?.uuid }) else {
                return .refused(old == nil ? .groupUnknown : .groupInUse)
            }
            next[place].group = new.name
        }
        groups = layout.groups
        nodes = next
        nodesMoved()
        return .applied([.nodesChanged])
    }
}

/// A new epoch: an operator's order replaces the decision of a majority ~ forced reconfiguration.
///
/// The command is not agreed on by the old group. The node that forms the new group applies it
/// after the log that it has, and the resulting state is the new group's first snapshot.
extension ClusterState {
    /// Leaves behind every node that is not a survivor.
    ///
    /// vBuckets with copies only on those nodes have no chain afterwards. vBuckets that lose only
    /// the active copy keep their chain: a promotion has to query the remaining copies first.
    mutating func begin(_ epoch: NewEpoch) -> ClusterOutcome {
        guard isProvisioned else { return .refused(.notInitialised) }
        guard allows(epoch.login, .poolsWrite) else { return .refused(.notPermitted) }
        guard epoch.survivors.allSatisfy({ node(number: $0) != nil }) else {
            return .refused(.nodeUnknown)
        }
        guard activeNodes.contains(where: { epoch.survivors.contains($0.number) }) else {
            return .refused(.lastActiveNode)
        }
        for place in nodes.indices where !epoch.survivors.contains(nodes[place].number) {
            nodes[place].membership = .leftBehind
            nodes[place].recovery = .none
            nodes[place].fencedAt = index
        }
        var effects = [ClusterEffect.epochChanged, .nodesChanged]
        // vBuckets in a joint phase revert to the chain that has a surviving copy.
        if let rebalance {
            let outcome = RebalanceOutcome(
                id: rebalance.id,
                ending: .failed,
                sentence: "A majority of the cluster's nodes was lost.",
                endedMilliseconds: epoch.beganMilliseconds
            )
            effects += end(outcome).effects
        }
        revEpoch += 1
        epochLogin = epoch.login
        counters.count(.quorumFailover)
        pastGroups.append(epoch.formerGroupID)
        groupID = epoch.groupID
        nodesMoved()
        // Copies on nodes that were failed over before are given up as well.
        let gone = gone
        let leftBehind = leftBehind
        for place in buckets.indices {
            // Copies of former active nodes that are gone can no longer be used.
            effects += changePlacements(ofBucketAt: place, isSeen: false) { placement in
                placement.former.map(leftBehind.contains) == true && placement.release()
            }
            effects += lose(gone, ofBucketAt: place)
            // Removes left-behind nodes from chains whose active node was failed over before: no other
            // step would, so they could never leave the cluster.
            effects += changePlacements(ofBucketAt: place) { [index] placement in
                placement.part(from: leftBehind, at: index)
            }
        }
        return .applied(effects)
    }

    /// Changes the placements of a bucket of which `change` returns true.
    ///
    /// - Parameters:
    ///   - place: The place of the bucket.
    ///   - isSeen: Whether clients see the change.
    ///   - change: Changes a placement, or returns false.
    /// - Returns: The effect, if a placement was changed.
    mutating func changePlacements(
        ofBucketAt place: Int,
        isSeen: Bool = true,
        _ change: (inout VBucketPlacement) -> Bool
    ) -> [ClusterEffect] {
        var changed: [VBucketID] = []
        for number in buckets[place].placements.indices
        where change(&buckets[place].placements[number]) {
            changed.append(VBucketID(UInt16(number)))
        }
        guard !changed.isEmpty else { return [] }
        if isSeen { buckets[place].rev = index }
        return [.assignmentsChanged(bucket: buckets[place].settings.name, changed)]
    }
}
