internal import ClusterService
internal import DataService
internal import Orchestration
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// A bucket is deleted, but a reachable node does not receive the deletion.
extension Story {
    /// A node's disk stalls: it accepts no entry, but its beats keep extending its lease.
    ///
    /// As long as the node serves the bucket, no other bucket of that name may be created.
    func deleteUnheard(_ leader: SimulatedNode, _ node: SimulatedNode) -> String? {
        let (world, address, bucket) = (cluster.world, node.address, "persistent")
        world.apply(.slowLane(address, lanes: "control-disk", nanoseconds: 100 * Story.second))
        // The lane stalls with the first entry; the next one waits.
        cluster.submit(leader, "settings") { service in
            let same = service.state.settings
            try await service.settings.change(settings: same, was: same)
            return "done"
        }
        world.run(for: Story.second)
        cluster.submit(leader, "delete") { service in
            try await service.buckets.delete(bucket)
            return "done"
        }
        world.run(for: 45 * Story.second)
        let serves = node.node?.data.reports(bucket).contains { $0.state == .active } ?? false
        guard serves, node.service?.state.bucket(named: bucket) != nil,
            leader.service?.state.bucket(named: bucket) == nil
        else {
            return "the node received the deletion"
        }
        guard leader.service?.state.deletedBuckets.isEmpty == false else {
            return "the bucket's name is free while a node serves the bucket"
        }
        world.apply(.slowLane(address, lanes: "control-disk", nanoseconds: 0))
        let isOver = cluster.waitUntil(seconds: 180) {
            leader.service?.state.deletedBuckets.isEmpty == true
        }
        return isOver ? nil : "the deletion does not end"
    }
}
