package import Orchestration
internal import Vocabulary

/// Counts changes of a cluster between two committed states.
package struct Changes {
    private var last: ClusterState?
    package private(set) var tally = Tally()
    /// vBuckets that were recreated empty, or whose bucket was deleted; a new bucket may have the
    /// name.
    package private(set) var remade: Set<String> = []
    /// How often each node was failed over or lost copies by a promotion, by its host.
    ///
    /// Both are counted, since a failover may be interrupted between the two.
    package private(set) var failovers: [String: Int] = [:]

    /// Nodes whose copies a promotion removed from a chain, in the current call of `record`.
    private var givenUp: Set<NodeNumber> = []

    package init() {}

    package static func name(_ bucket: String, _ vBucket: Int) -> String { "\(bucket) \(vBucket)" }

    /// Counts the changes since the previous call's state.
    package mutating func record(_ state: ClusterState) {
        defer { last = state }
        guard let last, last.index != state.index else { return }
        recordNodes(last, state)
        recordDeletions(last, state)
        for bucket in state.buckets {
            guard let old = last.bucket(named: bucket.settings.name),
                old.settings.uuid == bucket.settings.uuid
            else { continue }
            let isEmptied = zip(old.placements, bucket.placements).contains {
                $1.cause == .flushed && $1.origin != $0.origin
            }
            if isEmptied { tally[.change, "flush"] += 1 }
            if old.designRevision != bucket.designRevision { tally[.change, "design"] += 1 }
            for number in bucket.placements.indices {
                recordPlacement(
                    old.placements[number],
                    bucket.placements[number],
                    bucket: bucket,
                    number: number
                )
            }
        }
        for node in givenUp {
            if let host = state.node(number: node)?.host { failovers[host, default: 0] += 1 }
        }
        givenUp = []
        if let ended = state.lastRebalance, ended.id != last.lastRebalance?.id {
            tally[.change, ended.ending == .completed ? "rebalance" : "rebalanceCutShort"] += 1
        }
    }

    private mutating func recordDeletions(_ old: ClusterState, _ state: ClusterState) {
        for bucket in old.buckets {
            let name = bucket.settings.name
            guard state.bucket(named: name)?.settings.uuid != bucket.settings.uuid else { continue }
            for number in bucket.placements.indices { remade.insert(Changes.name(name, number)) }
        }
    }

    private mutating func recordNodes(_ old: ClusterState, _ state: ClusterState) {
        for node in state.nodes {
            let before = old.node(number: node.number)
            // The initial nodes of the cluster are not counted.
            if before == nil, state.lastRebalance != nil { tally[.change, "arrival"] += 1 }
            if node.membership == .inactiveFailed, before?.membership != .inactiveFailed {
                tally[.change, "failover"] += 1
                failovers[node.host, default: 0] += 1
            }
        }
        for node in old.nodes where state.node(number: node.number) == nil {
            tally[.change, "departure"] += 1
        }
    }

    private mutating func recordPlacement(
        _ old: VBucketPlacement,
        _ new: VBucketPlacement,
        bucket: BucketRecord,
        number: Int
    ) {
        if new.origin != old.origin { remade.insert(Changes.name(bucket.settings.name, number)) }
        guard new.fence != old.fence else {
            // The same owner with another chain: a replica has moved.
            if old.isJoint, !new.isJoint, new.chain != old.chain {
                tally[.change, "replicaMove"] += 1
            }
            return
        }
        switch new.cause {
        case .promoted:
            tally[.change, "promotion"] += 1
            givenUp.formUnion(old.chain.nodes.filter { !new.chain.contains($0) })
        case .takenOver: tally[.change, "takeover"] += 1
        case .resumed: tally[.change, "resumption"] += 1
        case .created, .flushed: break
        }
    }
}
