internal import ClusterService
internal import DataService
internal import Engine
internal import Orchestration
internal import Server
internal import Vocabulary

/// Checks that all copies of the map exist, are confirmed, and have the same content.
struct Convergence {
    let cluster: SimulatedCluster

    /// The flaws of the map and its members.
    ///
    /// - Parameters:
    ///   - toleratingLoss: Whether to ignore vBuckets without a copy, and those of which a
    ///     failed-over node may have more than all other copies.
    ///   - toleratingInvited: Whether to ignore nodes that are joining: if the inviting node ended,
    ///     they have a minute to join before they are removed.
    /// - Returns: A sentence for each flaw; empty if there is none.
    func mapFlaws(toleratingLoss: Bool = false, toleratingInvited: Bool = false) -> [String] {
        guard let state = cluster.newestState else { return ["no node has a state"] }
        var flaws: [String] = []
        for node in cluster.nodes {
            let applied = node.service?.state
            if let record = state.nodes.first(where: { $0.host == node.address }) {
                if record.membership == .joining {
                    if !toleratingInvited {
                        flaws.append("\(node.address) neither joined nor was removed")
                    }
                } else if applied?.index != state.index {
                    flaws.append("\(node.address) has not applied index \(state.index)")
                }
            } else if applied?.isProvisioned != false {
                flaws.append("\(node.address) has not learned that it was removed")
            }
        }
        if cluster.leader == nil { flaws.append("there is no leader") }
        if state.rebalance != nil { flaws.append("a rebalance runs") }
        for bucket in state.buckets {
            if bucket.flush != nil { flaws.append("\(bucket.settings.name) is being emptied") }
            for (number, placement) in bucket.placements.enumerated() {
                let name = "\(bucket.settings.name) vb:\(number)"
                if toleratingLoss, isLost(VBucketID(UInt16(number)), bucket, in: state) { continue }
                if placement.chain.isEmpty { flaws.append("\(name) has no copy") }
                if !placement.isConfirmed { flaws.append("\(name) is not confirmed") }
                if placement.isJoint { flaws.append("\(name) is between two chains") }
                if placement.former != nil { flaws.append("\(name) has a former owner") }
            }
        }
        return flaws
    }

    /// Some vBucket has no copy, or only failed-over nodes have data of it.
    var hasLost: Bool {
        guard let state = cluster.newestState else { return false }
        return state.buckets.contains { bucket in
            bucket.placements.indices.contains { isLost(VBucketID(UInt16($0)), bucket, in: state) }
        }
    }

    private func isLost(
        _ vBucket: VBucketID,
        _ bucket: BucketRecord,
        in state: ClusterState
    ) -> Bool {
        let placement = bucket[vBucket]
        guard let owner = placement.chain.first else { return true }
        let asked = [owner] + placement.confirmedChain.nodes
        let left = asked.filter { state.node(number: $0)?.membership == .active }
        guard left.count < asked.count else { return false }
        return left.allSatisfy { number in
            let reports = node(number, state)?.node?.data.reports(bucket.settings.name) ?? []
            return reports.allSatisfy { $0.vBucket != vBucket || !$0.protects }
        }
    }

    /// A sentence for each copy that is missing, in the wrong state, or differs from the active
    /// copy.
    func copyFlaws() -> [String] {
        guard let state = cluster.newestState else { return ["no node has a state"] }
        var flaws: [String] = []
        for bucket in state.buckets {
            for (number, placement) in bucket.placements.enumerated() {
                let vBucket = VBucketID(UInt16(number))
                let name = "\(bucket.settings.name) \(vBucket)"
                var active: [[UInt8]: CopyContent.Version]?
                for (place, owner) in placement.chain.nodes.enumerated() {
                    guard let node = node(owner, state), let data = node.node?.data else {
                        flaws.append("\(name): its node \(owner) does not run")
                        continue
                    }
                    let report = data.reports(bucket.settings.name).first {
                        $0.vBucket == vBucket
                    }
                    let wanted: VBucketState = place == 0 ? .active : .replica
                    guard report?.state == wanted else {
                        let found = report?.state.name ?? "missing"
                        let history = report.map { ", branch \($0.position.branchFence)" } ?? ""
                        flaws.append(
                            "\(name) is \(found) on \(node.address), not \(wanted.name): fence "
                                + "\(report?.fence ?? 0) of \(placement.fence), chain "
                                + "\(placement.chain.nodes)\(history)"
                        )
                        continue
                    }
                    let copy = node.copy(vBucket, of: bucket.settings.name)
                    if let prepares = copy?.prepares, prepares > 0 {
                        flaws.append("\(name): \(node.address) has \(prepares) pending prepares")
                    }
                    let held = copy?.documents ?? [:]
                    if place == 0 {
                        active = held
                    } else if let active, held != active {
                        flaws.append("\(name): " + difference(active, held, address: node.address))
                    }
                }
            }
        }
        return flaws
    }

    private func node(_ number: NodeNumber, _ state: ClusterState) -> SimulatedNode? {
        guard let record = state.node(number: number) else { return nil }
        return cluster.nodes.first { $0.address == record.host }
    }

    private func difference(
        _ active: [[UInt8]: CopyContent.Version],
        _ held: [[UInt8]: CopyContent.Version],
        address: String
    ) -> String {
        let keys = Set(active.keys).union(held.keys).filter { active[$0] != held[$0] }
        let first = keys.map { String(decoding: $0, as: UTF8.self) }.min() ?? ""
        let (one, other) = (active[Array(first.utf8)], held[Array(first.utf8)])
        return "\(address) differs in \(keys.count) keys, as \(first): "
            + "\(one.map { "\($0)" } ?? "nothing") and here "
            + "\(other.map { "\($0)" } ?? "nothing")"
    }
}

extension VBucket {
    /// A copy's progress and whether it has outstanding prepares.
    ///
    /// Nil if the copy does not exist, is resetting or is not loaded.
    var standing: (fence: UInt64, covered: Seqno, high: Seqno, hasPrepares: Bool)? {
        withCore { core in
            guard core.ownership.exists, !core.ownership.isResetting, core.isLoaded else {
                return nil
            }
            return (core.ownership.fence, core.coveredSeqno, core.highSeqno, core.hasPrepares)
        }
    }

    /// The seqnos of its outstanding prepares.
    var outstandingSeqnos: Set<Seqno> { withCore { Set($0.outstandingPrepares.map(\.seqno)) } }
}
