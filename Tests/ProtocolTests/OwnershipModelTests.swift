import Testing

/// Ownership and moves: what was committed stays, and nobody reads the past.
@Suite struct OwnershipModelTests {
    @Test(arguments: [2, 3])
    func noWalkLosesWhatWasPromised(_ copies: Int) {
        let bad = (UInt64(0)..<10_000).first { World.walk(seed: $0, copies: copies) != nil }
        #expect(bad == nil)
    }

    /// Walks in which nothing is committed, promoted or moved prove nothing.
    @Test func theWalksAreNotIdle() {
        var committed = 0
        var confirmed = 0
        var takeOvers = 0
        for seed in UInt64(0)..<500 {
            var world = World(seed: seed, copies: 2 + Int(seed & 1), mistake: .none)
            for _ in 0..<World.stepsMax where !world.isOver { world.step() }
            committed += (0..<2).filter { world.promises.newest[$0].write != 0 }.count
            for place in 1..<max(world.mapCount, 1) {
                let (before, map) = (world.maps[place - 1], world.maps[place])
                if before.isUnconfirmed, !map.isUnconfirmed { confirmed += 1 }
                if map.fence != before.fence, map.cause == .takeOver { takeOvers += 1 }
            }
        }
        #expect(committed > 500)
        #expect(confirmed > 500)
        #expect(takeOvers > 20)
    }

    /// Each with a stretch of seeds in which it is known to be found: some need tens of thousands
    /// of walks from nothing, which is for longer runs than this.
    @Test(arguments: Mistake.allCases.filter { $0 != .none })
    func aRuleLeftOutIsFound(_ mistake: Mistake) {
        let (first, copies) = mistake.firstSeed
        let found = (first..<first + 20).first {
            World.walk(seed: $0, copies: copies, mistake: mistake) != nil
        }
        #expect(found != nil)
        // The rule itself, on the same walks, holds.
        #expect(!(first..<first + 20).contains { World.walk(seed: $0, copies: copies) != nil })
    }
}
