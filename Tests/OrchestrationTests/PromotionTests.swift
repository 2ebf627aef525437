import Orchestration
import Testing
import Vocabulary

/// The choice of the promoted copy, case by case.
@Suite struct PromotionTests {
    private let fence: UInt64 = 10

    /// The report of a sealed copy.
    private func copy(
        _ covered: UInt64,
        branch: UInt64 = 5,
        high: UInt64? = nil,
        isIntact: Bool = true,
        fence: UInt64 = 10,
        isUnreadable: Bool = false
    ) -> CopyReport {
        CopyReport(
            vBucket: VBucketID(7),
            state: .replica,
            fence: fence,
            position: CopyPosition(branchFence: branch, covered: Seqno(covered)),
            high: Seqno(high ?? covered),
            persisted: Seqno(covered),
            isIntact: isIntact,
            wasCleanStop: false,
            boot: 1,
            isUnreadable: isUnreadable
        )
    }

    /// An unreadable copy would never become ready and would be chosen again and again.
    @Test func readableCopyIsPreferredAmongEqualCopies() {
        let asked = question([1, 2])
        #expect(choose(asked, [1: copy(4), 2: copy(4)])?.node == NodeNumber(1))
        let choice = choose(asked, [1: copy(4, isUnreadable: true), 2: copy(4)])
        #expect(choice?.node == NodeNumber(2) && choice?.safety == .safe)
        // An unreadable copy with more changes is still chosen.
        let ahead = choose(asked, [1: copy(5, isUnreadable: true), 2: copy(4)])
        #expect(ahead?.node == NodeNumber(1))
    }

    private func question(
        _ basis: [UInt16],
        copies: Int? = nil,
        former: UInt16? = nil
    ) -> Promotion.Question {
        let chain = basis.map { NodeNumber($0) }
        let assignment = VBucketAssignment(
            fence: fence,
            stage: fence,
            chain: chain,
            former: former.map { NodeNumber($0) },
            copies: copies ?? basis.count
        )
        return Promotion.Question(vBucket: VBucketID(7), basis: chain, of: assignment)
    }

    /// All nodes of the basis are lost during a move or during a promotion.
    @Test(arguments: [true, false])
    func otherChainIsQueriedIfTheBasisIsLost(isMove: Bool) {
        let (old, new) = ([NodeNumber(3)], [NodeNumber(2), NodeNumber(3)])
        let assignment = VBucketAssignment(
            fence: fence,
            stage: fence,
            chain: isMove ? old : [NodeNumber(2)],
            isConfirmed: isMove,
            nextChain: isMove ? new : [],
            copies: 2
        )
        func question(_ lost: Set<NodeNumber>) -> Promotion.Question {
            Promotion.Question(vBucket: VBucketID(7), basis: old, of: assignment, lost: lost)
        }
        #expect(question([]).asked == old)
        #expect(question([NodeNumber(3)]).asked == [NodeNumber(2)])
        // The copy lost its memory, but no other copy exists.
        let choice = choose(question([NodeNumber(3)]), [2: copy(4, isIntact: false)])
        #expect(choice?.node == NodeNumber(2) && choice?.safety == .safe)
        #expect(choice?.row == [NodeNumber(2)])
        #expect(question([NodeNumber(2), NodeNumber(3)]).asked == [])
    }

    private func choose(
        _ question: Promotion.Question,
        _ sealed: [UInt16: CopyReport],
        actives: [UInt16: Int] = [:]
    ) -> Promotion? {
        Promotion.choose(
            question,
            sealed: Dictionary(uniqueKeysWithValues: sealed.map { (NodeNumber($0), $1) }),
            activeCounts: Dictionary(uniqueKeysWithValues: actives.map { (NodeNumber($0), $1) })
        )
    }

    /// An operator or the policy has given up its copy.
    @Test func failedOverNodeIsNeitherQueriedNorPromoted() throws {
        var asked = question([1, 2, 3])
        #expect(asked.asked == [1, 2, 3].map { NodeNumber($0) })
        let two: [UInt16: CopyReport] = [
            2: copy(20, isIntact: false), 3: copy(21, isIntact: false),
        ]
        #expect(choose(asked, two)?.safety != .safe)
        asked.lost = [NodeNumber(1)]
        #expect(asked.asked == [NodeNumber(2), NodeNumber(3)])
        let chosen = try #require(choose(asked, two))
        #expect(chosen.safety == .safe)
        #expect(chosen.row == [NodeNumber(3), NodeNumber(2)])
        // One of two remaining copies is not enough.
        #expect(choose(asked, [3: copy(21, isIntact: false)])?.safety != .safe)
        // No queried copy has data. The failed-over node may have all of it, until an operator
        // gives it up, too.
        let none = copy(0, branch: 0, isIntact: false)
        #expect(choose(asked, [2: none, 3: none]) == nil)
        let sealed = [NodeNumber(2): none, NodeNumber(3): none]
        let empty = Promotion.choose(asked, sealed: sealed, givenUp: [NodeNumber(1)])
        #expect(empty?.safety == .safe)
        var kept = question([2], copies: 2, former: 1)
        #expect(kept.asked == [NodeNumber(2), NodeNumber(1)])
        kept.lost = [NodeNumber(1)]
        #expect(kept.asked == [NodeNumber(2)])
    }

    @Test func failedOverNodeCountsAsEmptyIfItReportsSoOrCannotHaveData() {
        let (vBucket, node) = (VBucketID(7), NodeNumber(1))
        var asked = question([1, 2])
        asked.lost = [node, NodeNumber(9)]
        func isEmptied(
            _ reports: [VBucketID: CopyReport]?,
            isInMemory: Bool = false,
            isBeingEmptied: Bool = false
        ) -> Bool {
            var asked = asked
            asked.noteEmptied(
                reports.map { [node: $0] } ?? [:],
                isInMemory: isInMemory,
                isBeingEmptied: isBeingEmptied
            )
            return asked.emptied == [node]
        }
        #expect(isEmptied([vBucket: copy(0, branch: 0)]))
        #expect(!isEmptied([vBucket: copy(4)], isInMemory: true, isBeingEmptied: true))
        // The node reports no such copy, but may have it in files that are not open.
        #expect(isEmptied([:], isInMemory: true))
        #expect(!isEmptied([:], isBeingEmptied: true))
        // The node does not answer.
        #expect(!isEmptied(nil, isInMemory: true))
        #expect(isEmptied(nil, isBeingEmptied: true))
    }

    @Test func emptyCopyIsPromotedIfAllAnsweredAndNoneHasData() throws {
        let empty = copy(0, branch: 0, isIntact: false)
        let choice = try #require(choose(question([1, 2]), [1: empty, 2: empty]))
        #expect(choice.node == NodeNumber(1))
        #expect(choice.safety == .safe)
        #expect(choice.expected == CopyPosition(branchFence: 0, covered: Seqno(0)))
        // A copy that did not answer may have everything.
        #expect(choose(question([1, 2]), [1: empty]) == nil)
    }

    /// Wanted copies, copies of the chain, intact copies needed.
    @Test(arguments: [(1, 1, 1), (2, 2, 1), (2, 1, 1), (3, 3, 2), (3, 2, 1), (3, 1, 1), (4, 4, 2)])
    func intactNeededIntersectsEveryMajority(_ copies: Int, _ chain: Int, _ needed: Int) {
        let question = question((1...UInt16(chain)).map { $0 }, copies: copies)
        #expect(question.intactNeeded == needed)
        // Check by definition: every majority that may have committed a write contains an intact
        // copy.
        let majority = copies / 2 + 1
        if chain >= majority { #expect(chain - needed < majority) }
    }

    @Test func changesOfTheStoppedActiveCopyCountAsLost() throws {
        let asked = question([1, 2])
        let sealed = [NodeNumber(2): copy(40)]
        let chosen = try #require(
            Promotion.choose(asked, sealed: sealed, stoppedAt: Seqno(43))
        )
        #expect(chosen.changesLost == 3)
        let equal = try #require(Promotion.choose(asked, sealed: sealed, stoppedAt: Seqno(40)))
        #expect(equal.changesLost == 0)
    }

    @Test func singleIntactReplicaIsPromotedSafely() throws {
        let chosen = try #require(choose(question([1, 2]), [2: copy(40)]))
        #expect(chosen.node == NodeNumber(2))
        #expect(chosen.row == [NodeNumber(2)])
        #expect(chosen.safety == .safe)
        #expect(chosen.expected == CopyPosition(branchFence: 5, covered: Seqno(40)))
        #expect(chosen.changesLost == 0)
        #expect(chosen.fence == fence)
    }

    @Test func replicaThatIsNotIntactMayLackCommittedWrites() throws {
        let chosen = try #require(choose(question([1, 2]), [2: copy(40, isIntact: false)]))
        #expect(
            chosen.safety == .mayLoseCommitted(intact: 0, needed: 1, answered: 1, of: 2)
        )
    }

    @Test func promotionIsSafeIfAllCopiesAnswered() throws {
        let sealed: [UInt16: CopyReport] = [
            1: copy(40, isIntact: false), 2: copy(38, isIntact: false),
        ]
        let chosen = try #require(choose(question([1, 2]), sealed))
        #expect(chosen.node == NodeNumber(1))
        #expect(chosen.safety == .safe)
        #expect(chosen.row == [NodeNumber(1), NodeNumber(2)])
    }

    @Test func oneIntactCopyOfThreeIsNotEnough() throws {
        let one = try #require(choose(question([1, 2, 3]), [3: copy(40)]))
        #expect(one.safety == .mayLoseCommitted(intact: 1, needed: 2, answered: 1, of: 3))
        let two = try #require(choose(question([1, 2, 3]), [2: copy(39), 3: copy(40)]))
        #expect(two.safety == .safe)
        #expect(two.row == [NodeNumber(3), NodeNumber(2)])
    }

    @Test func copiesAreComparedByCoveredSeqnoNotHigh() throws {
        let sealed: [UInt16: CopyReport] = [2: copy(40), 3: copy(30, high: 60)]
        let chosen = try #require(choose(question([1, 2, 3]), sealed))
        #expect(chosen.node == NodeNumber(2))
        // The other copy's changes above its covered seqno are known to have existed.
        #expect(chosen.changesLost == 20)
    }

    @Test func copyOnAnOlderBranchLosesAgainstANewerBranch() throws {
        let sealed: [UInt16: CopyReport] = [2: copy(90, branch: 4), 3: copy(30, branch: 5)]
        let chosen = try #require(choose(question([1, 2, 3]), sealed))
        #expect(chosen.node == NodeNumber(3))
        #expect(chosen.changesLost == 0)
    }

    @Test func equalCopiesAreRankedByActiveRoleThenLoadThenNumber() throws {
        let sealed: [UInt16: CopyReport] = [1: copy(40), 2: copy(40), 3: copy(40)]
        let asked = question([3, 2, 1])
        #expect(choose(asked, sealed)?.node == NodeNumber(3))
        let others = sealed.filter { $0.key != 3 }
        #expect(choose(asked, others, actives: [1: 9, 2: 8])?.node == NodeNumber(2))
        #expect(choose(asked, others, actives: [1: 8, 2: 8])?.node == NodeNumber(1))
    }

    @Test func formerActiveCopyIsQueriedAndCanBePromoted() throws {
        let asked = question([2, 3], copies: 2, former: 1)
        #expect(asked.asked == [NodeNumber(2), NodeNumber(3), NodeNumber(1)])
        let sealed: [UInt16: CopyReport] = [1: copy(50), 3: copy(45)]
        let chosen = try #require(choose(asked, sealed))
        #expect(chosen.node == NodeNumber(1))
        #expect(chosen.row == [NodeNumber(1), NodeNumber(3)])
        // The former active copy does not count as an intact copy of the chain.
        let alone = try #require(choose(asked, [1: copy(50)]))
        #expect(alone.safety == .mayLoseCommitted(intact: 0, needed: 1, answered: 0, of: 2))
    }

    /// All copies of the chain lost their memory: a write may be durable on the former active
    /// copy's disk only.
    @Test func withoutIntactCopiesTheFormerActiveCopyHasToAnswer() throws {
        var asked = question([2, 3], copies: 2, former: 1)
        var sealed: [UInt16: CopyReport] = [
            2: copy(20, isIntact: false), 3: copy(21, isIntact: false),
        ]
        let doubtful = try #require(choose(asked, sealed))
        #expect(doubtful.safety == .mayLoseCommitted(intact: 0, needed: 1, answered: 2, of: 2))
        sealed[1] = copy(50, isIntact: false)
        #expect(choose(asked, sealed)?.safety == .safe)
        #expect(choose(asked, sealed)?.node == NodeNumber(1))
        sealed[1] = nil
        asked.lost = [NodeNumber(1)]
        #expect(choose(asked, sealed)?.safety == .safe)
        // Nor is an empty copy promoted while the former active copy may have all data.
        asked.lost = []
        let none = copy(0, branch: 0, isIntact: false)
        #expect(choose(asked, [2: none, 3: none]) == nil)
    }

    @Test func reconcilingCopyHasNoPosition() throws {
        let void = copy(0, branch: 0)
        #expect(choose(question([1, 2]), [2: void]) == nil)
        let sealed: [UInt16: CopyReport] = [2: void, 3: copy(10)]
        let chosen = try #require(choose(question([1, 2, 3]), sealed))
        #expect(chosen.node == NodeNumber(3))
        #expect(chosen.safety == .mayLoseCommitted(intact: 1, needed: 2, answered: 2, of: 3))
    }

    @Test func answersOfAnotherFenceAreIgnored() {
        #expect(choose(question([1, 2]), [2: copy(40, fence: 9)]) == nil)
    }

    /// The vBucket is unserved until another copy answers, and the node of that copy is to be
    /// failed over.
    @Test func failoverOfNodeThatVBucketWaitsForIsBlocked() {
        let restarted = [NodeNumber(1): copy(20, isIntact: false)]
        func obstacles(_ failing: UInt16, former: UInt16? = nil, isWaiting: Bool)
            -> [FailoverBlocker]
        {
            let row = BucketAtStake.Row(
                question: question(former == nil ? [1, 2] : [1], copies: 2, former: former),
                reports: restarted,
                isWaiting: isWaiting
            )
            return BucketAtStake(name: "b", isEphemeral: false, rows: [row])
                .obstacles(failing: [NodeNumber(failing)])
        }
        let loss = [FailoverBlocker.wouldLoseDurable(bucket: "b", vBuckets: [VBucketID(7)])]
        #expect(obstacles(2, isWaiting: true) == loss)
        #expect(obstacles(2, isWaiting: false) == [])
        #expect(obstacles(2, former: 2, isWaiting: true) == loss)
        // The failover of another node does not affect it.
        #expect(obstacles(3, isWaiting: true) == [])
    }

    @Test func roundDistributesActiveCopiesAndListsUnsafeOnes() {
        var round = PromotionRound(bucket: "travel", activeCounts: [:])
        let chain = [NodeNumber(1), NodeNumber(2), NodeNumber(3)]
        for number in UInt16(0)..<4 {
            let asked = Promotion.Question(
                vBucket: VBucketID(number),
                basis: chain,
                of: VBucketAssignment(fence: 10, stage: 10, chain: chain, copies: 3)
            )
            var answer = copy(40, isIntact: number != 3)
            answer.vBucket = VBucketID(number)
            round.decide(asked, sealed: [NodeNumber(2): answer, NodeNumber(3): answer])
        }
        #expect(round.promotions.map(\.node.value) == [2, 3, 2, 3])
        #expect(round.unsafe == [VBucketID(3)])
        #expect(round.changesLost == 0)
        #expect(
            round.obstacles == [.wouldLoseDurable(bucket: "travel", vBuckets: [VBucketID(3)])]
        )
    }

    /// The lost changes for one or two nodes that served some of four vBuckets, with their last
    /// digests.
    private func lost(
        served: [UInt16: ActiveSeqnoDigest],
        highs: [UInt64] = [40, 40, 40, 40],
        former: [UInt16] = [1, 1, 1, 1]
    ) -> UInt64 {
        var round = PromotionRound(
            bucket: "travel",
            activeCounts: [:],
            served: Dictionary(uniqueKeysWithValues: served.map { (NodeNumber($0), $1) })
        )
        for number in UInt16(0)..<4 {
            let chain = [NodeNumber(former[Int(number)]), NodeNumber(3)]
            let asked = Promotion.Question(
                vBucket: VBucketID(number),
                basis: chain,
                of: VBucketAssignment(fence: 10, stage: 10, chain: chain, copies: 2)
            )
            var answer = copy(40, high: highs[Int(number)])
            answer.vBucket = VBucketID(number)
            round.decide(asked, sealed: [NodeNumber(3): answer])
        }
        return round.changesLost
    }

    private func digest(_ vBuckets: [UInt16], _ high: UInt64, fence: UInt64 = 10)
        -> ActiveSeqnoDigest
    {
        var digest = ActiveSeqnoDigest()
        for vBucket in vBuckets {
            digest.add(VBucketID(vBucket), fence: fence, high: Seqno(high))
        }
        return digest
    }

    @Test func lastDigestOfTheFailedNodeCountsLostChanges() {
        #expect(lost(served: [:]) == 0)
        // The order of additions does not matter.
        #expect(lost(served: [1: digest([3, 1, 0, 2], 43)]) == 12)
        // Copies may have received more since the digest.
        #expect(lost(served: [1: digest([0, 1, 2, 3], 39)]) == 0)
        #expect(lost(served: [1: digest([0, 1, 2, 3], 41)], highs: [60, 40, 40, 40]) == 20)
        // A digest of other vBuckets or of other fences cannot be compared.
        #expect(lost(served: [1: digest([0, 1, 2], 90)]) == 0)
        #expect(lost(served: [1: digest([0, 1, 2, 4], 90)]) == 0)
        #expect(lost(served: [1: digest([0, 1, 2, 3], 90, fence: 9)]) == 0)
        // Two nodes, each by its own digest.
        let former: [UInt16] = [1, 2, 1, 2]
        let served = [UInt16(1): digest([0, 2], 41), 2: digest([1, 3], 45)]
        #expect(lost(served: served, former: former) == 12)
        #expect(lost(served: [2: digest([1, 3], 45)], former: former) == 10)
    }
}
