import Bytes
import ClusterService
import Orchestration
import TestSupport
import Testing
import Vocabulary

/// Retries of failed rebalances.
@Suite(.serialized) struct RetrySceneTests {
    /// Three nodes, two with a bucket, and a rebalance of all, started by a login, that has just failed.
    private func scene(by login: String = root) async throws -> (ClusterScene, RebalanceRetry) {
        let scene = try ClusterScene(3)
        try await scene.build()
        var settings = scene[1].state.settings
        settings.autoFailover.isEnabled = false
        settings.retry.isEnabled = true
        settings.retry.afterSeconds = 2
        _ = try await scene[1].cluster.propose(.setSettings(settings))
        let (one, two) = (NodeNumber(1), NodeNumber(2))
        try await scene.createBucket([[one, two], [two, one], [one, two]])
        if login != root {
            let password = UserChange.Password(credentials: [1], changedSeconds: 1)
            let roles = Grants([RoleGrant(.clusterAdmin)])
            let user = UserChange(id: login, name: "", roles: roles, password: password)
            _ = try await scene[1].cluster.propose(.putUser(user), by: root)
        }
        let known = scene[1].state.nodes.map(\.otpNode)
        // The test's data plane stores no documents, so no copy is ever built.
        guard
            case .success(let id) = await Result(
                of: try await scene[2].membership.rebalance(
                    known: known,
                    ejected: [],
                    by: login
                )
            )
        else { throw SceneError("no rebalance") }
        let outcome = RebalanceOutcome(
            id: id,
            ending: .failed,
            sentence: "No copy was built.",
            endedMilliseconds: scene[1].cluster.wallMilliseconds
        )
        guard case .done = try await scene[1].cluster.propose(.endRebalance(outcome)),
            let retry = scene[1].state.retry
        else { throw SceneError("no retry is scheduled") }
        return (scene, retry)
    }

    @Test func failedRebalanceIsRetried() async throws {
        let (scene, retry) = try await scene()
        defer { scene.stop() }
        #expect(scene[1].state.rebalance == nil)
        #expect(
            await eventually {
                scene.members.allSatisfy { $0.service.state.rebalance?.id == retry.id }
            }
        )
    }

    @Test func cancelledRetryIsNotStarted() async throws {
        let (scene, retry) = try await scene()
        defer { scene.stop() }
        #expect(await !scene[2].membership.cancelRetry("another"))
        #expect(await scene[2].membership.cancelRetry(retry.id))
        try await Task.sleep(for: .seconds(3))
        #expect(scene[1].state.rebalance == nil && scene[1].state.retry == nil)
    }

    @Test func retryIsDroppedAfterNodesChanged() async throws {
        let (scene, _) = try await scene()
        defer { scene.stop() }
        let step = FailoverStep(nodes: [NodeNumber(3)], isAutomatic: false, mayLose: true)
        _ = try await scene[1].cluster.propose(.failOver(step), by: root)
        #expect(await eventually { scene[1].state.retry == nil })
        #expect(scene[1].state.rebalance == nil)
        // The event follows the state.
        let isReported = await eventually {
            scene.members.contains { member in
                member.service.cluster.events.all().contains { $0.text.contains("nodes changed") }
            }
        }
        #expect(isReported)
    }

    @Test func retryIsDroppedAfterItsLoginLostThePermission() async throws {
        let (scene, _) = try await scene(by: "operator")
        defer { scene.stop() }
        _ = try await scene[1].cluster.propose(.deleteUser(id: "operator"), by: root)
        #expect(await eventually { scene[1].state.retry == nil })
        #expect(scene[1].state.rebalance == nil)
        // The event follows the state.
        let isReported = await eventually {
            scene.members.contains { member in
                member.service.cluster.events.all().contains {
                    $0.text.contains("may no longer do so")
                }
            }
        }
        #expect(isReported)
    }

    /// The only node that was to stay is failed over: nothing can be planned.
    @Test func rebalanceWithoutRemainingNodeFails() async throws {
        let scene = try ClusterScene(3)
        defer { scene.stop() }
        try await scene.build()
        try await scene.keepFromFailingOver()
        let (one, three) = (NodeNumber(1), NodeNumber(3))
        try await scene.createBucket([[one, three], [three, one]])
        let known = scene[1].state.nodes.map(\.otpNode)
        let ejected = [scene.name(1), scene.name(3)]
        guard
            case .success(let id) = await Result(
                of: try await scene[1].membership.rebalance(
                    known: known,
                    ejected: ejected,
                    by: root
                )
            )
        else { throw SceneError("no rebalance") }
        let step = FailoverStep(nodes: [NodeNumber(2)], isAutomatic: false, mayLose: true)
        _ = try await scene[1].cluster.propose(.failOver(step), by: root)
        #expect(await eventually { scene[1].state.lastRebalance?.id == id })
        #expect(scene[1].state.lastRebalance?.ending == .failed)
    }
}
