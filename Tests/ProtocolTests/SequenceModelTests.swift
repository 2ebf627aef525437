import Testing

/// Sequences and marks: every client receives the newest version of each document, in order.
@Suite struct SequenceModelTests {
    @Test func feedsAreOrderedAndCompleteInRandomWalks() {
        let bad = (UInt64(0)..<1_200).first { SequenceWorld.walk(seed: $0) != nil }
        #expect(bad == nil)
    }

    /// The walks deliver, fail over, return, restart, move and read the past often enough to be
    /// evidence.
    @Test func randomWalksDeliverFailOverRestartAndMove() {
        var rows = 0
        var failovers = 0
        var returns = 0
        var restarts = 0
        var moves = 0
        var pageRows = 0
        var backfilled = 0
        for seed in UInt64(0)..<250 {
            var world = SequenceWorld(seed: seed, mistake: .none)
            world.run()
            rows += world.counts.rows
            failovers += world.counts.failovers
            returns += world.counts.returns
            restarts += world.counts.restarts
            moves += world.counts.moves
            pageRows += world.counts.pageRows
            backfilled += world.counts.backfilled
        }
        #expect(rows > 2_000)
        #expect(failovers > 75)
        #expect(returns > 75)
        #expect(restarts > 250)
        #expect(moves > 250)
        #expect(pageRows > 150)
        #expect(backfilled > 75)
    }

    /// The first design had these parts too; R5 and the counters of the members replace them.
    @Test(arguments: [SequenceMistake.startWithoutHandshake, .positionsNotExchanged])
    func supersededRulesAreNotNeeded(_ rule: SequenceMistake) {
        let bad = (UInt64(0)..<200).first {
            SequenceWorld.walk(seed: $0, mistake: rule) != nil
        }
        #expect(bad == nil)
    }

    /// Runs the seed that detects the mistake; with the rule in place it has no violation.
    @Test(arguments: SequenceMistake.allCases.filter { $0.seed != nil })
    func omittedSequenceRuleIsDetected(_ mistake: SequenceMistake) throws {
        let seed = try #require(mistake.seed)
        #expect(SequenceWorld.walk(seed: seed, mistake: mistake) != nil)
        #expect(SequenceWorld.walk(seed: seed) == nil)
    }
}

extension SequenceMistake {
    /// A seed that detects the mistake; nil if no walk detects it.
    fileprivate var seed: UInt64? {
        switch self {
        case .floorNotRaised: 0
        case .streamNumberIgnored: 1
        case .numberDrawnOutsideLock, .preparesNotAwaited: 3
        case .seqnosNotedBeforeFloor, .foreignNumberKept: 6
        case .pageWithoutCut, .pageCutAtHighest: 7
        case .marksBeforeReplication, .indexPairTorn: 9
        case .grantWithoutSequence, .grantOnlyByItsVersion: 9
        case .ringStartNotCompared: 37
        case .streamsNamedAtSending: 42
        case .backfillTokenIncomplete: 58
        case .replicationNotAwaited: 114
        case .indexOfEarlierOwner: 125
        case .silentReplicaIgnored: 186
        case .passOutlivesMove: 219
        case .counterFromDocuments: 284
        case .newerMapNotAwaited: 713
        case .rowsBeforeReplication: 854
        case .minimumOverOwners: 1_408
        case .backfillBeforeIndex: 9_107
        case .counterIgnoresCopies: 28_722
        case .counterNotExchanged: 53_435
        case .pageCutByOwnersOnly, .pageCutAtItsEnd: 87_065
        case .absentGrantNotStated: 92_188
        case .servesBeforeCounted: 101_498
        case .oneMemberAsked: 579_693
        case .none, .floorOutlivesMember: nil
        case .startWithoutHandshake, .positionsNotExchanged: nil
        }
    }
}
