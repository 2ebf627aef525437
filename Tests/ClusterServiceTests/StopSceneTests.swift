import Bytes
import ClusterService
import Orchestration
import TestSupport
import Testing
import Vocabulary

/// A rebalance is stopped right after its start, and requested during another one.
@Suite(.serialized) struct StopSceneTests {
    private func begin(_ scene: ClusterScene, at number: Int) async throws -> String {
        let known = scene[number].state.nodes.map(\.otpNode)
        guard
            case .success(let id) = await Result(
                of: try await scene[number].membership.rebalance(
                    known: known,
                    ejected: [],
                    by: root
                )
            )
        else { throw SceneError("no rebalance") }
        return id
    }

    @Test(arguments: 1...3)
    func answeredStopRequestEndsRebalance(number: Int) async throws {
        let scene = try await ClusterScene.waitingForTheThird()
        defer { scene.stop() }
        for _ in 0..<3 {
            let id = try await begin(scene, at: number)
            #expect(
                await Result(of: try await scene[number].membership.stopRebalance()).isDone
            )
            #expect(await eventually { scene[number].state.rebalance == nil })
            #expect(scene[number].state.lastRebalance?.id == id)
            #expect(scene[number].state.lastRebalance?.ending == .stopped)
        }
    }

    @Test func gracefulFailoverIsRefusedDuringRebalance() async throws {
        let scene = try await ClusterScene.waitingForTheThird()
        defer { scene.stop() }
        let known = scene[1].state.nodes.map(\.otpNode)
        async let rebalanced = Result(
            of: try await scene[1].membership.rebalance(known: known, ejected: [], by: root)
        )
        async let failedOver = Result(
            of: try await scene[2].membership.startGracefulFailover([scene.name(1)], by: root)
        )
        let answers = await (rebalanced, failedOver)
        let kind = try #require(scene[3].state.rebalance?.kind ?? scene[1].state.rebalance?.kind)
        switch answers.1 {
        case .success: #expect(kind == .gracefulFailover)
        case .failure(.busy(let text)):
            #expect(kind == .rebalance)
            #expect(text.contains("rebalance"))
        default: Issue.record("\(answers)")
        }
    }
}
