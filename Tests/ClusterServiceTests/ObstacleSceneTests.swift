import Bytes
import ClusterService
import LinuxPlatform
import Orchestration
import TestSupport
import Testing
import Vocabulary

/// Reports about a rebalance that makes no progress.
@Suite(.serialized) struct ObstacleSceneTests {
    /// A rebalance that waits for the third node's copies.
    private func scene() async throws -> (ClusterScene, RebalanceRecord) {
        let scene = try await ClusterScene.waitingForTheThird()
        let known = scene[1].state.nodes.map(\.otpNode)
        _ = await Result(
            of: try await scene[1].membership.rebalance(known: known, ejected: [], by: root)
        )
        guard let record = scene[1].state.rebalance else { throw SceneError("no rebalance") }
        let third = name(of: 3, in: scene)
        let isWaiting = await eventually {
            let text = await obstacle(scene, record)
            return text.contains("\(third) is still copying")
        }
        guard isWaiting else { throw SceneError(await obstacle(scene, record)) }
        return (scene, record)
    }

    private func name(of number: Int, in scene: ClusterScene) -> String {
        "127.0.0.1:\(scene.members[number - 1].ports.admin)"
    }

    private func obstacle(_ scene: ClusterScene, _ record: RebalanceRecord) async -> String {
        await scene[1].membership.report(of: record).obstacle ?? ""
    }

    @Test func obstacleNamesNodeWithStalledDiskAndMissingEntries() async throws {
        let (scene, record) = try await scene()
        defer { scene.stop() }
        let third = name(of: 3, in: scene)
        scene.members[2].holdDisk()
        // The other nodes are a majority: they continue, and call the third at an index that it
        // lacks.
        _ = try await scene[1].cluster.propose(.setSettings(scene[1].state.settings))
        #expect(
            await eventually {
                let text = await obstacle(scene, record)
                // The rebalance may have proposed entries of its own since.
                return text.contains("vBucket") && text.contains("\(third) has yet to write ")
                    && text.contains(" of the cluster's log")
            }
        )
        #expect(await eventually { scene[3].health.alerts.contains { $0.id == "disk/slow" } })
        #expect(!scene[1].health.alerts.contains { $0.id == "disk/slow" })
        scene.members[2].releaseDisk()
        #expect(
            await eventually { await !obstacle(scene, record).contains("of the cluster's log") }
        )
        #expect(await eventually { !scene[3].health.alerts.contains { $0.id == "disk/slow" } })
    }

    @Test func obstacleNamesNodeThatPreventsAgreement() async throws {
        let (scene, record) = try await scene()
        defer { scene.stop() }
        for member in scene.members.dropFirst() { member.holdDisk() }
        // The joint entry needs a majority, and only the leader's disk works.
        scene.members[2].plane?.heardThrough.withLock { $0 = .max }
        #expect(
            await eventually {
                let text = await obstacle(scene, record)
                return text.contains("vBucket") && text.contains(name(of: 2, in: scene))
                    && text.contains("of the cluster's log to disk")
            }
        )
        for member in scene.members.dropFirst() { member.releaseDisk() }
        #expect(
            await eventually { await !obstacle(scene, record).contains("of the cluster's log") }
        )
    }

    /// Each decision waits for a sync, which also waits for the file system if the file grows.
    @Test func controlLogReusesItsFileSpace() async throws {
        let scene = try ClusterScene(1)
        defer { scene.stop() }
        try await scene.build()
        let log = scene.members[0].root + "/control.sqlite-wal"
        let size = try LinuxDisk().size(log)
        #expect(size > 2 << 20)
        for seconds in UInt16(10)..<310 {
            var settings = scene[1].state.settings
            settings.retry.afterSeconds = seconds
            _ = try await scene[1].cluster.propose(.setSettings(settings))
        }
        #expect(try LinuxDisk().size(log) == size)
    }
}
