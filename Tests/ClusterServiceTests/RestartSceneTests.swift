import Bytes
import ClusterService
import Foundation
import Orchestration
import Persistence
import TestSupport
import Testing
import Vocabulary

/// Restart of a node in a cluster that has changed, with real services, sockets and files.
@Suite(.serialized) struct RestartSceneTests {
    /// Stores `seal` in a node's control file, in a row with a damaged value.
    private func spoil(_ seal: ControlSeal, in root: String) throws {
        let store = try ControlStore(disk: FileDisk(), directory: root)
        try store.commit([.seals(bucketUUID: "b-uuid", [seal])])
        try store.close()
        let file = URL(fileURLWithPath: store.path)
        var bytes = try Data(contentsOf: file)
        // The number as SQLite stores it, in six bytes.
        let term = Data((0..<6).reversed().map { UInt8(truncatingIfNeeded: seal.term >> (8 * $0)) })
        let place = try #require(bytes.range(of: term))
        bytes[place.lowerBound + 1] ^= 1
        try bytes.write(to: file)
    }

    /// It may have promised to accept no more changes of an active copy, and cannot know.
    @Test func nodeWithUnreadableSealsServesNothingAndAlerts() async throws {
        let scene = try ClusterScene(3)
        defer { scene.stop() }
        try await scene.build()
        let (one, three) = (NodeNumber(1), NodeNumber(3))
        try await scene.createBucket([[one, three], [three, one], [one, three]])
        let bucket = try #require(scene[1].state.bucket(named: "b"))
        let vBucket = VBucketID(0)
        let fence = bucket.placements[0].fence
        let member = scene.members[2]
        member.stop()
        let seal = ControlSeal(vBucket: vBucket, fence: fence, term: 0x5ea1_5ea1_5ea1)
        try spoil(seal, in: member.root)
        try await member.start()
        let isTold = {
            member.service.health.alerts.contains {
                $0.message.contains("This node serves nothing")
            }
        }
        let ends: () -> [UInt64] = {
            member.plane?.leases.withLock { leases in leases.map { $0.endNanoseconds } } ?? []
        }
        #expect(await eventually { isTold() })
        #expect(member.service.statistics.nodeStatus == .unhealthy)
        try await Task.sleep(for: .seconds(2))
        #expect(ends().allSatisfy { $0 == 0 })
        #expect(member.plane?.keptSeals.withLock { $0.isEmpty } == true)

        try member.service.cluster.controlStore.commit([.seals(bucketUUID: "b-uuid", [seal])])
        #expect(await eventually { ends().contains { $0 > 0 } })
        #expect(!isTold())
        let kept = member.plane?.keptSeals.withLock { Set($0) }
        #expect(kept == [FencedVBucket(vBucket, fence: fence)])
    }
    /// A bucket that it opens before the leader answers may have been deleted.
    @Test func restartedNodeLearnsCurrentBucketsBeforeOpening() async throws {
        let scene = try ClusterScene(3)
        defer { scene.stop() }
        try await scene.build()
        let rows: [NodeChain] = [[NodeNumber(1), NodeNumber(2)], [NodeNumber(2), NodeNumber(1)]]
        try await scene.createBucket(rows)
        let member = scene.members[2]
        member.stop()
        for phase in [BucketStep.Phase.begin, .end] {
            let step = BucketStep(name: "b", uuid: "b-uuid", phase: phase)
            _ = try await scene[1].cluster.propose(.deleteBucket(step))
        }
        var settings = BucketSettings(name: "b", uuid: "b-next", quota: 100 << 20)
        settings.vBuckets = rows.count
        let bucket = NewBucket(settings: settings, options: BucketOptions(), rows: rows)
        guard case .done = try await scene[1].cluster.propose(.createBucket(bucket)) else {
            throw SceneError("createBucket")
        }
        try await member.start()
        let openings = { member.plane?.openings.withLock { $0 } ?? [] }
        #expect(await eventually { openings().count == 2 })
        #expect(openings().map(\.settings.uuid) == ["b-uuid", "b-next"])
        #expect(openings().map(\.isCurrent) == [false, true])
    }

    /// Without a leader, its state may lack entries that it carried out before the restart.
    @Test func restartedNodeAppliesItsStateOnceItIsCurrent() async throws {
        let scene = try ClusterScene(3)
        defer { scene.stop() }
        try await scene.build()
        let member = scene.members[2]
        for one in scene.members { one.stop() }
        try await member.start()
        let seen = Guarded<[Bool]>([])
        let service = member.service
        service.cluster.observeState { [weak service] in
            let isFollowing = service?.applier.isFollowingState ?? false
            seen.withLock { $0.append(isFollowing) }
        }
        #expect(!service.applier.isFollowingState)
        for one in scene.members.dropLast() { try await one.start() }
        #expect(await eventually { seen.withLock { $0.last } == true })
    }
    /// The node can connect to the other nodes, but they call its old address, so it has no leader.
    ///
    /// In a cluster of two, no entry can be committed without this node either.
    @Test(arguments: [2, 3])
    func nodeRestartedAtOtherPortIsReconnected(_ count: Int) async throws {
        let scene = try ClusterScene(count)
        defer { scene.stop() }
        try await scene.build()
        let (member, node) = (scene.members[count - 1], NodeNumber(UInt16(count)))
        let old = member.ports.peer
        member.stop()
        member.forgetPeerPort()
        try await member.start()
        #expect(member.ports.peer != old)
        let isFound = await eventually {
            scene.members.allSatisfy { one in
                one.service.state.node(number: node)?.ports.peer == member.ports.peer
            }
        }
        #expect(isFound)
        #expect(await eventually { scene[1].statistics.status(of: node) == .healthy })
        #expect(
            await eventually { member.service.statistics.status(of: NodeNumber(1)) == .healthy }
        )
    }

    /// The link that the node opens serves both sides, so it is as healthy as the others.
    @Test func nodeWhosePeerPortIsUnreachableIsServedByTheLinkThatItOpens() async throws {
        let scene = try ClusterScene(3)
        defer { scene.stop() }
        try await scene.build()
        var settings = scene[1].state.settings
        settings.autoFailover.isEnabled = true
        settings.autoFailover.timeoutSeconds = 5
        let (member, three) = (scene.members[2], NodeNumber(3))
        let old = member.ports.peer
        member.stop()
        member.forgetPeerPort()
        // Like behind a firewall: it announces the right address, which is not reachable.
        try await member.start(sayingPeerPort: old)
        for number in [1, 2] {
            #expect(await eventually { scene[number].statistics.status(of: three) == .healthy })
        }
        _ = try await scene[1].cluster.propose(.setSettings(settings))
        let hasApplied = await eventually { member.service.state.settings == settings }
        #expect(hasApplied)
        #expect(scene[1].state.node(number: three)?.membership == .active)
    }
}
