import Testing

/// Ownership and moves: committed writes stay, and no read returns an older value.
@Suite struct OwnershipModelTests {
    @Test(arguments: [2, 3])
    func committedWritesSurviveRandomWalks(_ copies: Int) {
        let bad = (UInt64(0)..<10_000).first { World.walk(seed: $0, copies: copies) != nil }
        #expect(bad == nil)
    }

    /// Replicas are given up while other replicas stay, and are added again by moves.
    @Test(arguments: [2, 3])
    func committedWritesSurviveRemovalOfReplicas(_ copies: Int) {
        let bad = (UInt64(0)..<5_000).first {
            World.walk(seed: $0, copies: copies, givesUp: true) != nil
        }
        #expect(bad == nil)
    }

    /// As in the product: a copy that would have to rewind discards everything.
    @Test(arguments: [2, 3], [false, true])
    func committedWritesSurviveIfRewoundCopiesRestartFromZero(_ copies: Int, _ givesUp: Bool) {
        let bad = (UInt64(0)..<5_000).first {
            World.walk(seed: $0, copies: copies, givesUp: givesUp, rewindsToNothing: true) != nil
        }
        #expect(bad == nil)
    }

    /// The walks commit, promote, move, give up and rewind often enough to be evidence.
    @Test func randomWalksCommitPromoteMoveAndRewind() {
        var committed = 0
        var confirmed = 0
        var takeOvers = 0
        var givenUp = 0
        var rewinds = 0
        for seed in UInt64(0)..<500 {
            var world = World(
                seed: seed,
                copies: 2 + Int(seed & 1),
                mistake: .none,
                givesUp: seed & 2 == 0,
                rewindsToNothing: seed & 4 == 0
            )
            for _ in 0..<World.stepsMax where !world.isOver { world.step() }
            rewinds += world.rewinds
            committed += (0..<2).filter { world.promises.newest[$0].write != 0 }.count
            for place in 1..<max(world.mapCount, 1) {
                let (before, map) = (world.maps[place - 1], world.maps[place])
                if before.isUnconfirmed, !map.isUnconfirmed { confirmed += 1 }
                if map.fence != before.fence, map.cause == .takeOver { takeOvers += 1 }
                if map.fence != before.fence, map.cause == .giveUp { givenUp += 1 }
            }
        }
        #expect(committed > 500)
        #expect(confirmed > 500)
        #expect(takeOvers > 20)
        #expect(givenUp > 20)
        #expect(rewinds > 20)
    }

    /// Tries 20 seeds around one that detects the mistake: from seed 0, some mistakes would need
    /// many thousands of walks.
    @Test(arguments: Mistake.allCases.filter { $0 != .none })
    func omittedOwnershipRuleIsDetected(_ mistake: Mistake) {
        let (first, copies) = mistake.firstSeed
        let found = (first..<first + 20).first {
            World.walk(seed: $0, copies: copies, mistake: mistake, givesUp: mistake.givesUp) != nil
        }
        #expect(found != nil)
        // With the rule in place, the same seeds have no violation.
        let isBroken = (first..<first + 20).contains {
            World.walk(seed: $0, copies: copies, givesUp: mistake.givesUp) != nil
        }
        #expect(!isBroken)
    }
}

extension Mistake {
    /// The first of 20 seeds, one of which detects the mistake, and the number of copies.
    fileprivate var firstSeed: (first: UInt64, copies: Int) {
        switch self {
        case .none: (0, 2)
        case .noSeal: (535, 2)
        case .volatileSeal: (2_206, 3)
        case .promotionByHigh: (738, 2)
        case .acknowledgementInsideSnapshot: (36, 2)
        case .anySurvivorSuffices: (33, 3)
        case .intactForgotten: (38, 3)
        case .noFenceCompare: (676, 2)
        case .unsealWithoutNewFence: (1_574, 3)
        case .noTwoChains: (518, 3)
        case .inheritedAborted: (2, 3)
        case .readsOverInherited: (2, 3)
        case .noLease: (1_563, 2)
        case .expectedPositionUnchecked: (1_304, 3)
        case .newChainConsulted: (46, 3)
        case .servingBeforeConfirmation: (4_701, 2)
        case .wholeLogAdopted: (5_619, 2)
        case .branchAtHigh: (197_500, 3)
        case .outstandingPreparesUnlisted: (0, 2)
        case .takeOverWithoutIntact: (396, 3)
        case .stageNotCompared: (676, 2)
        case .intactOverPromotion: (46, 3)
        case .intactOverGivingUp: (254, 3)
        case .formerDropped: (426_930, 2)
        case .formerUnasked: (488_240, 2)
        }
    }

    /// Whether the walks of `firstSeed` give up replicas; this changes what a seed does.
    fileprivate var givesUp: Bool { self == .intactOverGivingUp }
}
