import Consensus
import Testing

/// Whole groups under faults: safety after each step, liveness when the faults end.
@Suite struct WalkTests {
    @Test func noWalkViolatesThePapersProperties() {
        var elections = 0
        var commits = 0
        var reads = 0
        for seed in UInt64(1)...600 {
            var walk = Walk(seed: seed)
            let violation = walk.run(steps: 4_000)
            #expect(violation == nil, "seed \(seed)")
            if violation != nil { return }
            #expect(walk.recover(rounds: 200) != nil, "seed \(seed) never came to rest")
            walk.group.checker.checkMatching(walk.group)
            #expect(walk.group.checker.violation == nil, "seed \(seed)")
            elections += walk.group.checker.elections
            commits += Int(walk.group.checker.commit)
            reads += walk.group.checker.readsAnswered
        }
        // Walks in which nothing happens prove nothing.
        #expect(elections > 2_000)
        #expect(commits > 10_000)
        #expect(reads > 1_000)
    }

    @Test(arguments: [Sabotage.acknowledgesBeforeSync, .forgetsItsVote])
    func aDriverThatForgetsIsCaught(_ sabotage: Sabotage) {
        // One stormy walk in eighty has the double vote; these seeds are near one.
        let first: UInt64 = sabotage == .forgetsItsVote ? 595 : 1
        let caught = (first..<first + 20).first { seed in
            var walk = Walk(seed: seed, sabotage: sabotage)
            return walk.run(steps: 4_000) != nil
        }
        #expect(caught != nil)
    }
}
