import Bytes
import Orchestration
import Testing
import Vocabulary

/// Random commands, by seed: the invariants hold, and a node that continues from a snapshot reaches
/// the same state.
@Suite struct ClusterWalkTests {
    static let steps = 400

    @Test(arguments: 0..<60 as Range<UInt64>)
    func randomCommandsKeepTheInvariants(seed: UInt64) throws {
        let hasDesigns = seed % 3 == 0
        let hasUsers = seed % 6 >= 4
        var dice = CommandDice(seed: seed, hasDesigns: hasDesigns, hasUsers: hasUsers)
        var state = ClusterWorld(nodes: 3).state
        var follower = state
        var kinds: Set<String> = []
        for step in 0..<Self.steps {
            let envelope = dice.envelope(for: state)
            let before = state
            let index = state.index + 1 + UInt64(dice.below(3))
            let bytes = envelope.encoded
            let decoded = try #require(
                try? ClusterEnvelope(decoding: bytes),
                "seed \(seed) step \(step)"
            )
            #expect(decoded == envelope)
            let outcome = state.apply(envelope, at: index)
            #expect(follower.apply(decoded, at: index) == outcome)
            let violations =
                state.violations(since: before) + unannounced(from: before, to: state, outcome)
            guard violations.isEmpty else {
                Issue.record("seed \(seed) step \(step): \(violations) after \(envelope.command)")
                return
            }
            if case .applied(let effects) = outcome, !effects.isEmpty {
                let isAll = effects.allSatisfy { if case .leftOut = $0 { true } else { false } }
                let name = "\(envelope.command)".prefix { $0 != "(" }
                if !isAll { kinds.insert(String(name)) }
            } else if case .refused = outcome {
                #expect(state.buckets == before.buckets && state.nodes == before.nodes)
            }
            if step % 10 == 0 {
                guard case .state(let snapshot) = ClusterState.decode(follower.encoded()) else {
                    Issue.record("seed \(seed) step \(step): not decoded")
                    return
                }
                follower = snapshot
            }
            #expect(follower == state, "seed \(seed) step \(step)")
        }
        // A walk with few kinds of effective commands proves nothing.
        #expect(kinds.count > 10, "seed \(seed): only \(kinds.sorted())")
    }

    @Test func randomCommandsCoverEveryKind() {
        var kinds: [String: Int] = [:]
        for seed in 0..<40 as Range<UInt64> {
            let hasDesigns = seed % 4 == 0
            let hasUsers = seed % 8 == 1
            var dice = CommandDice(
                seed: 1_000 + seed,
                hasDesigns: hasDesigns,
                hasUsers: hasUsers
            )
            var state = ClusterWorld(nodes: 3).state
            for _ in 0..<Self.steps {
                let command = dice.command(for: state)
                let outcome = state.apply(command, at: state.index + 1)
                let isOnlyLeftOut = outcome.effects.allSatisfy {
                    if case .leftOut = $0 { true } else { false }
                }
                let name = String("\(command)".prefix { $0 != "(" })
                if !isOnlyLeftOut { kinds[name, default: 0] += 1 }
            }
        }
        let steps = [
            "joint", "final", "takeOver", "promote", "confirm", "resume", "release", "recreate",
            "failOver", "startRebalance", "setTargets", "endRebalance", "markRebalance",
            "createBucket", "changeBucket", "deleteBucket", "flushBucket", "addNode", "removeNode",
            "setNodeState", "newEpoch", "putDesignDocument", "deleteDesignDocument",
            "setNode", "setIndexing", "putUser", "deleteUser", "changePassword",
        ]
        for name in steps { #expect(kinds[name, default: 0] > 5, "\(name)") }
    }
}
