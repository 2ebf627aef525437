internal import ClusterService
internal import DataService
internal import Orchestration
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// A bucket is deleted, and a node that is heard does not hear of it.
extension Story {
    /// Its disk stands still: it takes no entry, and its beats have it promised a lease all the while.
    ///
    /// As long as it serves, nobody may make another bucket of that name.
    func deleteUnheard(_ leader: SimulatedNode, _ node: SimulatedNode) -> String? {
        let (world, address, bucket) = (cluster.world, node.address, "persistent")
        world.apply(.slowLane(address, lanes: "control-disk", nanoseconds: 100 * Story.second))
        // One entry is what the lane stands still with; the next one waits.
        cluster.tell(leader, "settings") { service in
            let same = service.state.settings
            return "\(await service.change(settings: same, was: same))"
        }
        world.run(for: Story.second)
        cluster.tell(leader, "delete") { "\(await $0.deleteBucket(bucket))" }
        world.run(for: 45 * Story.second)
        let serves = node.node?.data.reports(bucket).contains { $0.state == .active } ?? false
        guard serves, node.service?.state.bucket(named: bucket) != nil,
            leader.service?.state.bucket(named: bucket) == nil
        else {
            return "the node heard of the deletion"
        }
        guard leader.service?.state.deletedBuckets.isEmpty == false else {
            return "the bucket's name is free, and a node serves it"
        }
        world.apply(.slowLane(address, lanes: "control-disk", nanoseconds: 0))
        let isOver = cluster.waitUntil(seconds: 180) {
            leader.service?.state.deletedBuckets.isEmpty == true
        }
        return isOver ? nil : "the deletion does not end"
    }
}
