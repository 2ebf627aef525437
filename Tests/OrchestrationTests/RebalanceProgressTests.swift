import Orchestration
import Testing
import Vocabulary

/// Shown progress of a rebalance.
@Suite struct RebalanceProgressTests {
    @Test func progressIsByWeightAndNeverFalls() {
        let (one, three) = (NodeNumber(1), NodeNumber(3))
        var progress = RebalanceProgress(
            nodes: [one, NodeNumber(2), three],
            bucketsCount: 2
        )
        #expect(progress.fraction == 0)
        let moves = [move(0, [1, 2], [1, 3], items: 800), move(1, [1, 2], [3, 2], items: 800)]
        progress.begin(bucket: "travel", number: 1, moves: moves)
        #expect(progress.bucketNumber == 1)
        progress.sent(400, of: VBucketID(0))
        #expect(progress.fraction == 0.1)
        #expect(progress.fraction(of: three) == 0.1)
        progress.finished(VBucketID(0))
        #expect(progress.fraction == 0.25)
        // A new plan does not lower the progress.
        progress.replan(moves: [
            move(1, [1, 2], [3, 2], items: 8_000), move(2, [1, 2], [1, 3], items: 8_000),
        ])
        #expect(progress.fraction == 0.25)
        progress.finished(VBucketID(1))
        progress.finished(VBucketID(2))
        #expect(progress.fraction == 0.5)
        progress.begin(bucket: "empty", number: 2, moves: [])
        #expect(progress.fraction == 1)
    }

    /// Each leader knows only the mark of the one before: shown progress still never falls.
    @Test(arguments: 0..<20 as Range<UInt64>)
    func progressNeverFallsFromLeaderToLeader(seed: UInt64) {
        var dice = Dice(seed)
        let nodes = [1, 2, 3].map { NodeNumber($0) }
        var left = (0..<60 as Range<UInt16>).map {
            move($0, [1, 2], $0 % 2 == 0 ? [3, 2] : [1, 3], items: UInt64(dice.roll(1_000)))
        }
        var mark = RebalanceMark()
        var (shown, shownOfThree) = (0.0, 0.0)
        var marks = 0
        for leader in 0..<6 {
            var progress = RebalanceProgress(nodes: nodes, bucketsCount: 2, after: mark)
            // The first bucket needs no moves.
            progress.begin(bucket: "travel", number: 2, moves: left)
            while left.count > 50 - leader * 10 {
                let one = left[dice.roll(left.count)]
                progress.sent(UInt64(dice.roll(1_000)), of: one.vBucket)
                if dice.roll(4) == 0 {
                    progress.finished(one.vBucket)
                    left.removeAll { $0.vBucket == one.vBucket }
                }
                // The leader may crash before the mark is committed.
                if !mark.covers(progress.mark), dice.roll(3) > 0 {
                    mark = progress.mark
                    marks += 1
                }
                let now = min(progress.fraction, mark.limit)
                let ofThree = min(progress.fraction(of: nodes[2]), mark.limit(of: nodes[2]))
                #expect(now >= shown && ofThree >= shownOfThree, "leader \(leader)")
                #expect(mark.fraction <= now, "leader \(leader)")
                (shown, shownOfThree) = (now, ofThree)
            }
            if left.isEmpty { #expect(progress.mark.all == RebalanceMark.whole) }
        }
        #expect(left.isEmpty)
        #expect((5...60).contains(marks), "a mark for every step is too many: \(marks)")
    }

    @Test func progressIsZeroAtTheStartAndCompleteOnlyAtTheEnd() {
        let node = NodeNumber(1)
        let none = RebalanceMark()
        #expect(none.limit == 0 && none.limit(of: node) == 0)
        #expect(none.covers(RebalanceMark(fraction: 0.0009, parts: [(node, 0)])))
        #expect(!none.covers(RebalanceMark(fraction: 0, parts: [(node, 0.001)])))
        let most = RebalanceMark(fraction: 0.98, parts: [(node, 1)])
        #expect(most.limit == 0.999 && most.limit(of: node) == 1)
        #expect(!most.covers(RebalanceMark(fraction: 1, parts: [])))
    }

    @Test func movedDataIsCountedByDirection() {
        var progress = RebalanceProgress(
            nodes: [1, 2, 3].map { NodeNumber($0) },
            bucketsCount: 1
        )
        progress.begin(
            bucket: "travel",
            number: 1,
            moves: [
                move(0, [1, 2], [3, 2], items: 100), move(1, [1, 2], [1, 3], items: 10),
                move(2, [1, 3], [3, 1]),
            ]
        )
        progress.sent(40, of: VBucketID(0))
        let into = progress.detail(of: NodeNumber(3)).ingoing
        #expect(into.documentsTotal == 110)
        #expect(into.documentsTransferred == 40)
        #expect(into.activeVBucketsLeft == 2)
        #expect(into.replicaVBucketsLeft == 1)
        let out = progress.detail(of: NodeNumber(1)).outgoing
        #expect(out.documentsTotal == 110)
        #expect(out.activeVBucketsLeft == 2)
        #expect(out.replicaVBucketsLeft == 0)
        #expect(progress.detail(of: NodeNumber(2)).outgoing.replicaVBucketsLeft == 1)
        progress.finished(VBucketID(0))
        progress.finished(VBucketID(1))
        progress.finished(VBucketID(2))
        let end = progress.detail(of: NodeNumber(3)).ingoing
        #expect(end.documentsTransferred == 110)
        #expect(end.activeVBucketsLeft + end.replicaVBucketsLeft == 0)
    }
}
