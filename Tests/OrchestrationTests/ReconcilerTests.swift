import Orchestration
import Testing
import Vocabulary

/// The leader's decisions as traces: a view and results in, actions out.
@Suite struct ReconcilerTests {
    private let rows: [NodeChain] = [[n(1), n(2)], [n(2), n(3)], [n(3), n(1)]]

    /// Three nodes, each active for one vBucket, with nothing to do.
    private func trace() -> LeaderTrace {
        var trace = LeaderTrace(nodes: 3, rows: rows)
        trace.run(milliseconds: 1_000)
        #expect(trace.takeLines() == [])
        return trace
    }

    // MARK: Failover

    @Test func silentNodeIsFailedOverInThisOrder() {
        var trace = trace()
        trace.silent = [n(3)]
        trace.run(milliseconds: 4_800)
        let before = trace.takeLines()
        #expect(before.contains("reports 1 2") && !before.contains { $0.hasPrefix("seal") })
        trace.run(milliseconds: 600)
        let lines = trace.takeLines().filter { !$0.hasPrefix("reports") }
        #expect(
            lines == [
                "seal 1:1", "propose promote 2>1", "activate 1:1", "propose confirm 2",
                "propose failOver 3", "forget 3",
                "warning: Node 127.0.0.1:9030 was failed over; no change is known to be lost.",
                "voters ~3",
            ]
        )
        #expect(trace.world.placement(2).chain == [n(1)])
        #expect(trace.voters == [n(1), n(2)])
    }

    @Test func nodeWithOnlyCopyIsNotFailedOverByItself() {
        var trace = LeaderTrace(nodes: 3, rows: [[n(1)], [n(2)], [n(3)]], replicas: 0)
        trace.silent = [n(3)]
        trace.run(milliseconds: 7_000)
        let lines = trace.takeLines()
        #expect(!lines.contains { $0.hasPrefix("propose") })
        #expect(lines.contains { $0.hasPrefix("warning: Node 127.0.0.1:9030 does not answer") })
        #expect(trace.reconciler.failover.reasons.count == 1)
        // An operator may do it: the vBucket waits for its node.
        trace.failOver(3)
        #expect(trace.lines.contains("answer 1: done"))
        #expect(trace.world.placement(2).chain == [])
        #expect(trace.world.placement(2).rowBefore == [n(3)])
    }

    @Test func failoverWithoutAgreementIsRefused() {
        var trace = trace()
        trace.silent = [n(3)]
        trace.hasMajority = false
        trace.failOver(3)
        let refusal = "The cluster did not agree on failing over 127.0.0.1:9030."
        #expect(trace.takeLines().last == "answer 1: \(refusal)")
        #expect(trace.reconciler.failover.reasons == [])
        trace.hasMajority = true
        trace.failOver(3, request: 2)
        #expect(trace.takeLines().contains("answer 2: done"))
    }

    @Test func stoppedOnlyCopyIsResumedOnItsNode() {
        var trace = LeaderTrace(nodes: 3, rows: [[n(2), n(3)], [n(2), n(1)], [n(1), n(2)]])
        trace.run(milliseconds: 500)
        trace.lines = []
        trace.silent = [n(3)]
        trace.run(milliseconds: 100)
        trace.failOver(2)
        #expect(
            trace.takeLines().filter { !$0.hasPrefix("warning") } == [
                "seal 2:2", "seal 1:1 3:1", "propose promote 1>1", "activate 1:1",
                "propose confirm 1", "propose resume 0", "propose failOver 2", "forget 2",
                "voters ~2", "answer 1: done",
            ]
        )
        #expect(trace.world.placement(0).chain == [n(2), n(3)])
    }

    @Test func endOfLeadershipAnswersFailoversAndDropsTheirResults() {
        var trace = trace()
        trace.isHolding = true
        trace.failOver(3)
        #expect(trace.takeLines() == ["seal 3:1"])
        let actions = trace.reconciler.stopLeading()
        let refusal = "The cluster did not agree on failing over 127.0.0.1:9030."
        #expect(actions == [.answerFailover(1, .refused(refusal))])
        // The seal's result arrives in a later leadership: nothing follows from it.
        trace.isHolding = false
        for action in trace.held { trace.answer(action) }
        #expect(trace.takeLines() == [])
    }

    @Test func vBucketThatNodeGetsDuringItsFailoverIsPromotedToo() {
        var trace = trace()
        trace.isHolding = true
        trace.failOver(3)
        #expect(trace.takeLines() == ["seal 3:1"])
        // Another entry makes the node active for vBucket 1 while its vBucket 2 is sealed.
        let choice = trace.world.step(1, row: [n(3), n(2)], position: at(1, 10), deposes: [n(2)])
        trace.apply(.promote(choice))
        trace.apply(.confirm(trace.world.step(1)))
        trace.isHolding = false
        trace.answer(trace.held.removeFirst())
        #expect(
            trace.takeLines().filter { $0.hasPrefix("propose") } == [
                "propose promote 2>1", "propose confirm 2", "propose promote 1>2",
                "propose confirm 1", "propose failOver 3",
            ]
        )
        #expect(trace.world.placement(1).chain == [n(2)])
    }

    @Test func copyOfNodeInFailoverIsNotChosen() {
        var trace = trace()
        // Node 2 stopped serving vBucket 1, and node 3 is about to be failed over.
        trace.unready = [n(2)]
        trace.copies[n(2)]?[VBucketID(1)]?.state = .dead
        trace.copies[n(2)]?[VBucketID(1)]?.position = CopyPosition(branchFence: 0, covered: .zero)
        trace.isHolding = true
        trace.failOver(3)
        trace.isHolding = false
        trace.run(milliseconds: 3_000)
        #expect(!trace.takeLines().contains { $0.hasPrefix("propose promote") })
        // Without the failover, node 3 serves it.
        _ = trace.reconciler.stopLeading()
        trace.run(milliseconds: 3_000)
        #expect(trace.takeLines().contains("propose promote 1>3,2"))
    }

    // MARK: Copies

    @Test func unservedVBucketGetsCopyWithItsChanges() {
        var trace = trace()
        trace.unready = [n(2)]
        trace.copies[n(2)]?[VBucketID(1)]?.state = .dead
        trace.run(milliseconds: 200)
        #expect(
            trace.takeLines().prefix(5) == [
                "reports 2", "reports 2 3", "seal 2:1 3:1", "propose promote 1>2,3", "activate 2:1",
            ]
        )
        #expect(trace.world.placement(1).isConfirmed)
    }

    @Test func refusedPromotionIsChosenAnewAfterTwoSeconds() {
        var trace = trace()
        let choice = trace.world.step(1, row: [n(3)], position: at(1, 20), deposes: [n(2)])
        trace.apply(.promote(choice))
        trace.run(milliseconds: 1_900)
        let early = trace.takeLines()
        #expect(early.contains("activate 3:1") && !early.contains { $0.hasPrefix("seal") })
        trace.run(milliseconds: 300)
        #expect(trace.takeLines().contains { $0.hasPrefix("propose promote 1>") })
        #expect(trace.world.placement(1).isConfirmed)
    }

    @Test func formerOwnerIsReleasedOncePersisted() {
        var trace = trace()
        trace.world.rebalance(kept: [n(1), n(2), n(3)])
        trace.world.targets([[n(2), n(3)], [n(2), n(3)], [n(3), n(1)]])
        trace.apply(.joint(trace.world.step(0, row: [n(2), n(3)])))
        trace.apply(.takeOver(trace.world.step(0, position: at(1, 10))))
        trace.world.end("r", .failed)
        #expect(trace.world.placement(0).former == n(1))
        trace.copies[n(2)]?[VBucketID(0)]?.persisted = Seqno(9)
        trace.run(milliseconds: 1_000)
        #expect(!trace.takeLines().contains("propose release 0"))
        // Later changes are not waited for.
        trace.copies[n(2)]?[VBucketID(0)]?.high = Seqno(12)
        trace.copies[n(2)]?[VBucketID(0)]?.persisted = Seqno(10)
        trace.run(milliseconds: 100)
        #expect(trace.takeLines().contains("propose release 0"))
        #expect(trace.world.placement(0).former == nil)
    }

    // MARK: Jobs

    @Test func jobIsNotStartedAgainBeforeItsEndAndRoundIsRepeatedThen() {
        var trace = trace()
        trace.unready = [n(2)]
        trace.isHolding = true
        trace.run(milliseconds: 1_000)
        #expect(trace.takeLines() == ["reports 2"])
        let question = trace.held.removeFirst()
        trace.answer(question)
        // The round that found the job running is repeated at once, and asks again.
        #expect(trace.takeLines() == ["reports 2"])
    }

    // MARK: Members

    @Test func joinIsCompletedByTheLogOrEndsAfterAMinute() {
        var trace = trace()
        trace.apply(.addNode(ClusterWorld.node(4)))
        trace.silent = [n(4)]
        trace.run(milliseconds: 59_000)
        #expect(trace.takeLines() == ["voters ~4"] || trace.world.state.nodes.count == 4)
        trace.run(milliseconds: 2_000)
        #expect(trace.takeLines().contains("propose remove 4"))
        trace.apply(.addNode(ClusterWorld.node(5)))
        trace.run(milliseconds: 200)
        #expect(trace.takeLines().contains("propose state 5 inactiveAdded"))
    }

    @Test func nameOfDeletedBucketIsFreeOnceNoNodeServesIt() {
        var trace = trace()
        let uuid = trace.world.state.bucket(named: "b")?.settings.uuid ?? ""
        trace.apply(.deleteBucket(BucketStep(name: "b", uuid: uuid, phase: .begin)))
        trace.actsAsOf[n(2)] = 0
        trace.run(milliseconds: 60_000)
        #expect(!trace.takeLines().contains("propose delete b"), "node 2 is heard and serves it")
        trace.silent = [n(2)]
        trace.run(milliseconds: 36_000)
        #expect(trace.takeLines().contains("propose delete b"), "a majority has not heard node 2")
        #expect(trace.world.state.deletedBuckets == [])
    }

    @Test func nameOfDeletedBucketIsFreeAtOnceIfAllNodesActByTheDeletion() {
        var trace = trace()
        let uuid = trace.world.state.bucket(named: "b")?.settings.uuid ?? ""
        trace.apply(.deleteBucket(BucketStep(name: "b", uuid: uuid, phase: .begin)))
        trace.run(milliseconds: 100)
        #expect(trace.takeLines() == ["propose delete b"])
    }

    // MARK: Rebalance

    @Test func rebalanceMovesToNewNodeAndRemovesLeavingOne() {
        var trace = trace()
        trace.apply(.addNode(ClusterWorld.node(4)))
        trace.run(milliseconds: 300)
        trace.lines = []
        trace.world.rebalance(kept: [n(1), n(2), n(4)], ejected: [n(3)])
        trace.run(milliseconds: 10_000)
        let lines = trace.takeLines()
        let entries = lines.filter { $0.hasPrefix("propose") && !$0.hasPrefix("propose mark") }
            .map { $0.split(separator: " ")[1] }
        #expect(entries.first == "targets" && entries.last == "end")
        for kind in ["joint", "takeOver", "release"] {
            #expect(entries.contains { $0 == kind }, "\(kind) in \(entries)")
        }
        #expect(lines.contains("info: The rebalance is complete."))
        // The leaving node lost its vote before it was removed.
        let vote = lines.firstIndex { $0.hasPrefix("voters") && $0.contains("3") }
        let end = lines.firstIndex { $0.hasPrefix("propose end") }
        #expect(vote != nil && end != nil && vote! < end!)
        #expect(trace.world.state.nodes.map(\.number) == [n(1), n(2), n(4)])
        let chains = trace.world.state.bucket(named: "b")?.chains ?? []
        #expect(chains.allSatisfy { $0.count == 2 && !$0.contains(n(3)) })
    }

    @Test func requestedStopEndsRebalanceAfterRunningMoves() {
        var trace = trace()
        trace.apply(.addNode(ClusterWorld.node(4)))
        trace.run(milliseconds: 300)
        trace.world.rebalance(kept: (1...4).map(n))
        trace.reconciler.stopRebalance("r")
        trace.run(milliseconds: 500)
        #expect(trace.takeLines().contains("info: The rebalance was stopped."))
        #expect(trace.world.state.rebalance == nil)
        #expect(trace.world.state.bucket(named: "b")?.chains == rows.map(\.nodes))
    }

    @Test func rebalanceNamesNodeThatWasFailedOverMeanwhile() {
        var trace = trace()
        trace.apply(.addNode(ClusterWorld.node(4)))
        trace.run(milliseconds: 300)
        trace.silent = [n(4)]
        trace.world.rebalance(kept: (1...4).map(n))
        trace.run(milliseconds: 500)
        #expect(trace.world.state.rebalance != nil)
        trace.apply(.failOver(FailoverStep(nodes: [n(4)], isAutomatic: true, mayLose: false)))
        trace.run(milliseconds: 3_000)
        #expect(
            trace.takeLines().contains {
                $0.hasPrefix("info: The rebalance is complete.")
                    && $0.contains("continued without 127.0.0.1:9040")
            }
        )
        #expect(trace.world.state.rebalance == nil)
    }

    @Test func nextLeaderContinuesRebalance() {
        var trace = trace()
        trace.apply(.addNode(ClusterWorld.node(4)))
        trace.run(milliseconds: 300)
        trace.world.rebalance(kept: [n(1), n(2), n(4)], ejected: [n(3)])
        trace.run(milliseconds: 100)
        #expect(trace.world.state.rebalance != nil)
        _ = trace.reconciler.stopLeading()
        trace.run(milliseconds: 10_000)
        #expect(trace.takeLines().contains("info: The rebalance is complete."))
    }
}
