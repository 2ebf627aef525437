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
