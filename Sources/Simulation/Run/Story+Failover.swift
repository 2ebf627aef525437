internal import ClusterService
internal import DataService
internal import Orchestration
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// A leader that is deposed in the middle of failing a node over.
extension Story {
    /// The leader is not heard any more when it has sealed what a silent node serves.
    ///
    /// The silent one is back, the leader is failed over in its turn, and the node is the only one
    /// that has what they both had, when the old leader is heard again.
    func failOverUnheard(_ leader: SimulatedNode, _ node: SimulatedNode) -> String? {
        let world = cluster.world
        guard let number = self.number(of: node), let ruler = self.number(of: leader),
            let common = cluster.newestState.map({ served(by: [ruler, number], in: $0) }),
            !common.isEmpty
        else { return "the two have nothing in common" }
        world.apply(.freeze(node.address))
        let isSealed = world.run(for: 5 * Story.second) { [self] in
            isAllSealed(of: number, except: [leader, node])
        }
        guard isSealed else { return "nobody was asked to take over" }
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
        guard isAlone, membership(of: leader, at: node) == .inactiveFailed else {
            return "the leader was not failed over"
        }
        // What the old leader asked for meanwhile is asked for again when it is heard.
        world.run(for: 7 * Story.second)
        world.apply(.healNetwork)
        world.run(for: 3 * Story.second)
        guard let state = cluster.newestState, membership(of: node, at: node) == .active else {
            return "a node that serves the last copies was failed over"
        }
        let lost = state.buckets.flatMap(\.placements).count { $0.chain.isEmpty }
        return lost == 0 ? nil : "\(lost) vBuckets have no copy"
    }

    func number(of node: SimulatedNode) -> NodeNumber? {
        cluster.newestState?.nodes.first { $0.host == node.address }?.number
    }

    /// vBuckets that the first serves and of which the second alone has a copy.
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

    /// Whether all copies of what a node serves are sealed, but for those of `others`.
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
