package import Orchestration
internal import Vocabulary

/// Counts what becomes of a cluster, from one state that was agreed on to a later one.
package struct Changes {
    private var last: ClusterState?
    package private(set) var tally = Tally()
    /// vBuckets that began anew, or whose bucket was deleted: another one may have its name by now.
    package private(set) var remade: Set<String> = []
    /// How often each node was failed over, or copies of it were given up by a promotion, by its host:
    /// a failover may be broken off between the two.
    package private(set) var failovers: [String: Int] = [:]

    /// Nodes whose copies a promotion left out, of the states that are looked at.
    private var givenUp: Set<NodeNumber> = []

    package init() {}

    package static func name(_ bucket: String, _ vBucket: Int) -> String { "\(bucket) \(vBucket)" }

    package mutating func look(_ state: ClusterState) {
        defer { last = state }
        guard let last, last.index != state.index else { return }
        look(atNodes: last, state)
        look(atDeletions: last, state)
        for bucket in state.buckets {
            guard let old = last.bucket(named: bucket.settings.name),
                old.settings.uuid == bucket.settings.uuid
            else { continue }
            let isEmptied = zip(old.placements, bucket.placements).contains {
                $1.cause == .flushed && $1.origin != $0.origin
            }
            if isEmptied { tally[.change, "flush"] += 1 }
            for number in bucket.placements.indices {
                look(old.placements[number], bucket.placements[number], bucket, number)
            }
        }
        for node in givenUp {
            if let host = state.node(number: node)?.host { failovers[host, default: 0] += 1 }
        }
        givenUp = []
        if let ended = state.lastRebalance, ended.id != last.lastRebalance?.id {
            tally[.change, ended.verdict == .completed ? "rebalance" : "rebalanceCutShort"] += 1
        }
    }

    private mutating func look(atDeletions old: ClusterState, _ state: ClusterState) {
        for bucket in old.buckets {
            let name = bucket.settings.name
            guard state.bucket(named: name)?.settings.uuid != bucket.settings.uuid else { continue }
            for number in bucket.placements.indices { remade.insert(Changes.name(name, number)) }
        }
    }

    private mutating func look(atNodes old: ClusterState, _ state: ClusterState) {
        for node in state.nodes {
            let before = old.node(number: node.number)
            // Those that the cluster was built of are no news.
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

    private mutating func look(
        _ old: VBucketPlacement,
        _ new: VBucketPlacement,
        _ bucket: BucketRecord,
        _ number: Int
    ) {
        if new.origin != old.origin { remade.insert(Changes.name(bucket.settings.name, number)) }
        guard new.fence != old.fence else {
            // The same owner, and another set of copies counts: a replica has moved.
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
