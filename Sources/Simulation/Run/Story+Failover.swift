internal import DataService
internal import Orchestration
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// A leader is deposed in the middle of a failover.
extension Story {
    /// The leader is disconnected after it has sealed the copies of what a silent node serves.
    ///
    /// The silent node returns and the leader itself is failed over, so the node has the only
    /// copies of what both had, when the old leader is reconnected.
    func failOverUnheard(_ leader: SimulatedNode, _ node: SimulatedNode) -> String? {
        let world = cluster.world
        guard let number = self.number(of: node), let ruler = self.number(of: leader),
            let common = cluster.newestState.map({ served(by: [ruler, number], in: $0) }),
            !common.isEmpty
        else { return "the two nodes have no vBucket in common" }
        world.apply(.freeze(node.address))
        let isSealed = world.run(for: 5 * Story.second) { [self] in
            isAllSealed(of: number, except: [leader, node])
        }
        guard isSealed else { return "the copies were not sealed" }
        for other in cluster.nodes where other !== leader {
            world.apply(.oneWay(from: leader.address, to: other.address))
        }
        world.run(for: 20_000_000)
        world.apply(.thaw(node.address))
        let isAlone = cluster.waitUntil(seconds: 5) { [cluster] in
            guard let state = cluster.newestState else { return false }
            return common.allSatisfy { bucket, vBucket in
                let placement = state.bucket(named: bucket)?[vBucket]
                return placement?.chain == NodeChain([number]) && placement?.isConfirmed == true
            }
        }
        // The node applies the failover later than the node with the newest state.
        let isFailedOver = cluster.waitUntil(seconds: 1) { [self] in
            membership(of: leader, at: node) == .inactiveFailed
        }
        guard isAlone, isFailedOver else { return "the leader was not failed over" }
        // The old leader repeats its proposals when it is reconnected.
        world.run(for: 7 * Story.second)
        world.apply(.healNetwork)
        world.run(for: 3 * Story.second)
        guard let state = cluster.newestState, membership(of: node, at: node) == .active else {
            return "a node that serves the last copies was failed over"
        }
        let lost = state.buckets.flatMap(\.placements).count { $0.chain.isEmpty }
        return lost == 0 ? nil : "\(lost) vBuckets have no copy"
    }

    /// The node's number in the newest state; nil if it is not a member.
    func number(of node: SimulatedNode) -> NodeNumber? {
        cluster.newestState?.nodes.first { $0.host == node.address }?.number
    }

    /// The vBuckets whose chain is exactly `chain`.
    private func served(
        by chain: [NodeNumber],
        in state: ClusterState
    ) -> [(bucket: String, vBucket: VBucketID)] {
        state.buckets.flatMap { bucket in
            bucket.placements.enumerated().filter { $0.element.chain.nodes == chain }.map {
                (bucket.settings.name, VBucketID(UInt16($0.offset)))
            }
        }
    }

    /// Whether all replicas of what a node serves are sealed, except those on `others`.
    private func isAllSealed(of number: NodeNumber, except others: [SimulatedNode]) -> Bool {
        guard let state = cluster.newestState else { return false }
        return state.buckets.allSatisfy { bucket in
            bucket.placements.enumerated().allSatisfy { vBucket, placement in
                guard placement.chain.first == number else { return true }
                return placement.chain.nodes.dropFirst().allSatisfy { owner in
                    let host = state.node(number: owner)?.host
                    guard let node = cluster.nodes.first(where: { $0.address == host }),
                        !others.contains(where: { $0 === node })
                    else { return true }
                    let id = VBucketID(UInt16(vBucket))
                    let reports = node.node?.data.reports(bucket.settings.name) ?? []
                    return reports.first { $0.vBucket == id }?.isSealed == true
                }
            }
        }
    }
}
