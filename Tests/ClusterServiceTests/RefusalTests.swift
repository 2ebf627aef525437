import ClusterService
import Orchestration
import Testing

/// The sentences of refusals.
@Suite(.serialized) struct RefusalTests {
    @Test(arguments: ClusterRefusal.allCases)
    func everyRefusalHasUniqueSentence(_ refusal: ClusterRefusal) {
        let sentence = refusal.sentence
        #expect(sentence.hasSuffix(".") && sentence.contains(" "))
        #expect(!sentence.contains("\(refusal)"))
        #expect(ClusterRefusal.allCases.count { $0.sentence == sentence } == 1)
    }

    @Test func recoveryOfNodeWithoutRecoveryTypeCannotBeCancelled() async throws {
        let scene = try ClusterScene(3)
        defer { scene.stop() }
        try await scene.build()
        guard
            case .success = await Result(
                of: try await scene[1].membership.failOver([scene.name(3)], by: root)
            )
        else {
            throw SceneError("failOver")
        }
        let kept = await Result(
            of: try await scene[1].membership.setRecovery(scene.name(3), .none, by: root)
        )
        guard case .failure(.refused(let text)) = kept else { throw SceneError("\(kept)") }
        #expect(text.contains("has no recovery type to remove") && text.contains("setRecoveryType"))
        for recovery in [RecoveryType.delta, .none] {
            #expect(
                await Result(
                    of: try await scene[1].membership.setRecovery(scene.name(3), recovery, by: root)
                ).isDone
            )
        }
    }
}
