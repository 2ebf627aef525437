import Orchestration
import Testing
import Vocabulary

/// The decisions of a round of a failover, by the state after its promotions.
@Suite struct FailoverRoundTests {
    /// A vBucket of node 4 alone loses its only copy.
    private func world(_ rows: [NodeChain]) -> ClusterWorld {
        var world = ClusterWorld(nodes: 4)
        world.createBucket(rows: rows)
        world.apply(.failOver(FailoverStep(nodes: [n(4)], isAutomatic: false, mayLose: true)))
        #expect(world.state.bucket(named: "b")?.placements.count == rows.count)
        return world
    }

    /// A round for node 1, which was active for three vBuckets: node 2 has copies of the first two,
    /// which lack five and two changes.
    private func round() -> PromotionRound {
        var round = PromotionRound(bucket: "b", activeCounts: [:])
        for (number, high) in [(UInt16(0), UInt64(45)), (1, 42), (2, 40)] {
            let chain = [n(1), n(2)]
            let asked = Promotion.Question(
                vBucket: VBucketID(number),
                basis: chain,
                of: VBucketAssignment(fence: 10, stage: 10, chain: chain, copies: 2)
            )
            let answer = CopyReport(
                vBucket: VBucketID(number),
                state: .replica,
                fence: 10,
                position: CopyPosition(branchFence: 5, covered: Seqno(40)),
                high: Seqno(high),
                persisted: Seqno(40),
                isIntact: true,
                wasCleanStop: false,
                boot: 1
            )
            round.decide(asked, sealed: number == 2 ? [:] : [n(2): answer])
        }
        return round
    }

    /// The promotions that are left, and the changes that they lose.
    private func settled(_ rows: [NodeChain]) -> [UInt64] {
        var round = round()
        round.keepSettled(in: world(rows).state.bucket(named: "b"), without: [n(1)])
        #expect(round.lost == [] && round.obstacles == [])
        return round.promotions.map { UInt64($0.vBucket.number) } + [round.changesLost]
    }

    /// A failover decides again about vBuckets that changed, and reports both rounds as one.
    @Test func roundCountsOnlyPromotionsThatTookEffect() {
        #expect(round().changesLost == 7)
        #expect(round().obstacles == [.noReplica(bucket: "b", vBuckets: [VBucketID(2)])])
        // Every promotion took effect; one did not; a vBucket went to a node that was not chosen.
        #expect(settled([[n(2)], [n(2)], [n(1)]]) == [0, 1, 7])
        #expect(settled([[n(1), n(2)], [n(2)], [n(1)]]) == [1, 2])
        #expect(settled([[n(3)], [n(1)], [n(1)]]) == [0, 5])
        // A vBucket without a copy was not decided.
        #expect(settled([[n(4)], [n(1)], [n(1)]]) == [0])
        var deleted = round()
        deleted.keepSettled(in: nil, without: [n(1)])
        #expect(deleted.promotions.isEmpty && deleted.changesLost == 0)
    }

    @Test func failoverIsUndecidedWhileItsNodesServeVBucketsWithOtherCopies() {
        func isServed(_ rows: [NodeChain], by nodes: [Int], lost: [UInt16] = []) -> Bool {
            world(rows).state.isServed(
                by: nodes.map { n($0) },
                except: ["b": Set(lost.map { VBucketID($0) })]
            )
        }
        let rows: [NodeChain] = [[n(1), n(2)], [n(2), n(1)], [n(4)]]
        #expect(isServed(rows, by: [1]))
        #expect(isServed(rows, by: [2, 3]))
        #expect(!isServed(rows, by: [3]))
        // A replica of the node is no reason, nor a vBucket that no other node has.
        #expect(!isServed(rows, by: [1], lost: [0]))
        #expect(isServed(rows, by: [1, 2], lost: [0]))
        #expect(!isServed(rows, by: [1, 2], lost: [0, 1]))
    }
}
