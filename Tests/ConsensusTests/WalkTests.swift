import Consensus
import Testing

/// Random walks of groups under faults: safety after each step, progress when the faults end.
@Suite struct WalkTests {
    @Test func randomWalksKeepTheSafetyPropertiesOfThePaper() {
        var elections = 0
        var commits = 0
        var reads = 0
        for seed in UInt64(1)...600 {
            var walk = Walk(seed: seed)
            let violation = walk.run(steps: 4_000)
            #expect(violation == nil, "seed \(seed)")
            if violation != nil { return }
            #expect(walk.recover(rounds: 200) != nil, "seed \(seed) made no progress")
            walk.group.checker.checkMatching(walk.group)
            #expect(walk.group.checker.violation == nil, "seed \(seed)")
            elections += walk.group.checker.elections
            commits += Int(walk.group.checker.commit)
            reads += walk.group.checker.readsAnswered
        }
        // Walks without elections, commits and reads would prove nothing.
        #expect(elections > 2_000)
        #expect(commits > 10_000)
        #expect(reads > 1_000)
    }

    @Test(arguments: [Sabotage.acknowledgesBeforeSync, .forgetsItsVote])
    func sabotagedDriverViolatesAProperty(_ sabotage: Sabotage) {
        // One stormy walk in eighty has a double vote; these seeds include one.
        let first: UInt64 = sabotage == .forgetsItsVote ? 595 : 1
        let caught = (first..<first + 20).first { seed in
            var walk = Walk(seed: seed, sabotage: sabotage)
            return walk.run(steps: 4_000) != nil
        }
        #expect(caught != nil)
    }
}
