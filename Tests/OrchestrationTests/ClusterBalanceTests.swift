import Orchestration
import Testing
import Vocabulary

/// Whether a cluster of three nodes needs a rebalance.
@Suite struct ClusterBalanceTests {
    private let even: [NodeChain] = [[n(1), n(2)], [n(2), n(3)], [n(3), n(1)]]

    @Test func evenCopiesOnActiveNodesAreBalanced() {
        var world = ClusterWorld(nodes: 3)
        #expect(world.state.isBalanced)
        world.createBucket(rows: even)
        #expect(world.state.imbalances == [])
        #expect(world.state.isBalanced)
    }

    @Test func waitingNodeUnbalancesClusterWithoutImbalancedBuckets() {
        var world = ClusterWorld(nodes: 3)
        world.createBucket(rows: even)
        world.apply(.addNode(ClusterWorld.node(4)))
        // A joining node does not count: a rebalance cannot use it yet.
        #expect(world.state.isBalanced)
        world.apply(.setNodeState(.init(number: n(4), membership: .inactiveAdded)))
        #expect(!world.state.isBalanced)
        #expect(world.state.waitingNodes.map(\.number) == [n(4)])
        #expect(world.state.imbalances == [])
    }

    @Test func unevenAndMissingCopiesAreReportedByBucket() {
        var world = ClusterWorld(nodes: 3)
        world.createBucket("uneven", rows: [[n(1), n(2)], [n(1), n(3)], [n(2), n(1)]])
        world.createBucket("short", rows: [[n(1), n(2)], [n(2)], [n(3), n(1)]])
        let found = Set(world.state.imbalances)
        #expect(
            found == [
                BucketImbalance(cause: .uneven, bucket: "uneven"),
                BucketImbalance(cause: .replicas, bucket: "short"),
            ]
        )
    }

    /// As after a node that crashed and restarted at once.
    @Test func fewChangedActiveCopiesNeedNoRebalance() {
        func isBalanced(_ moved: Int) -> Bool {
            var world = ClusterWorld(nodes: 2)
            let (one, other): (NodeChain, NodeChain) = ([n(1), n(2)], [n(2), n(1)])
            let rows = (0..<400).map { $0 < 200 + moved ? one : other }
            world.createBucket(rows: rows)
            return world.state.isBalanced
        }
        #expect(isBalanced(0) && isBalanced(2))
        #expect(!isBalanced(3))
    }

    @Test func unservedVBucketsAreReportedAndCounted() {
        var world = ClusterWorld(nodes: 3)
        world.createBucket("alone", replicas: 0, rows: [[n(1)], [n(2)], [n(3)], [n(3)]])
        #expect(world.state.haveOnlyCopies([n(3)]))
        #expect(world.state.imbalances.filter { $0.cause == .unserved } == [])
        world.apply(.failOver(FailoverStep(nodes: [n(3)], isAutomatic: false, mayLose: true)))
        #expect(world.state.buckets.map { world.state.unserved($0) } == [2])
        #expect(
            world.state.imbalances.contains(BucketImbalance(cause: .unserved, bucket: "alone"))
        )
    }

    @Test func replicasBeyondTheNumberOfNodesAreNotMissing() {
        var world = ClusterWorld(nodes: 2)
        world.createBucket(replicas: 3, rows: [[n(1), n(2)], [n(2), n(1)]])
        #expect(world.state.isBalanced)
    }

    @Test func vBucketsWithFewerCopiesThanConfiguredAreReportedWithTheCure() {
        var alone = ClusterWorld(nodes: 1)
        alone.createBucket(rows: [[n(1)], [n(1)]])
        #expect(alone.state.isBalanced)
        #expect(alone.state.lostRedundancy.map(\.vBuckets) == [2])
        #expect(
            alone.state.lostRedundancy.map(\.sentence) == [
                "2 of 2 vBuckets of bucket b have fewer copies than configured (1 replica): the loss "
                    + "of one more node can lose documents. Add a node and rebalance, or set the "
                    + "bucket's number of replicas to 0."
            ]
        )
        alone.apply(.addNode(ClusterWorld.node(2)))
        alone.apply(.setNodeState(.init(number: n(2), membership: .inactiveAdded)))
        #expect(
            alone.state.lostRedundancy.allSatisfy {
                $0.sentence.hasSuffix("documents. Rebalance to create the missing copies.")
            }
        )
        var pair = ClusterWorld(nodes: 2)
        pair.createBucket(replicas: 3, rows: [[n(1), n(2)], [n(2), n(1)]])
        #expect(
            pair.state.lostRedundancy.allSatisfy {
                $0.sentence.contains("Add 2 nodes and rebalance") && $0.sentence.hasSuffix(" to 1.")
            }
        )
        #expect(pair.state.lostRedundancy.map(\.vBuckets) == [2])
        var whole = ClusterWorld(nodes: 3)
        whole.createBucket(rows: even)
        whole.createBucket("single", replicas: 0, rows: [[n(1)], [n(2)]])
        #expect(whole.state.lostRedundancy == [])
    }

    @Test func redundancyIsLostFromTheFailoverUntilTheRebalanceHasEnded() {
        var world = ClusterWorld(nodes: 3)
        world.createBucket(rows: [[n(1), n(3)], [n(2), n(3)], [n(2), n(1)]])
        world.apply(.failOver(FailoverStep(nodes: [n(3)], isAutomatic: false, mayLose: true)))
        #expect(world.state.lostRedundancy.map(\.vBuckets) == [2])
        #expect(world.state.lostRedundancy.first?.sentence.contains("Rebalance to") == true)
        world.rebalance("r", kept: [n(1), n(2)], ejected: [n(3)])
        #expect(world.state.lostRedundancy.first?.sentence.contains("is running") == true)
    }

    @Test func unservedVBucketHasAnotherCureThanLostRedundancy() {
        var world = ClusterWorld(nodes: 3)
        world.createBucket(rows: [[n(3)], [n(1), n(3)], [n(2), n(1)]])
        world.apply(.failOver(FailoverStep(nodes: [n(3)], isAutomatic: false, mayLose: true)))
        #expect(world.state.lostRedundancy.map(\.vBuckets) == [1])
        let sentence = world.state.lostRedundancy.first?.sentence ?? ""
        #expect(sentence.hasSuffix("Add the failed-over nodes back, then rebalance."))
    }

    @Test func gracefulFailoverOfOnlyCopiesIsImpossible() {
        var world = ClusterWorld(nodes: 3)
        world.createBucket(rows: [[n(1), n(2)], [n(2)], [n(3), n(1)]])
        #expect(world.state.canFailOverGracefully([n(1)]))
        #expect(!world.state.canFailOverGracefully([n(1)], silent: [n(2)]))
        #expect(world.state.canFailOverGracefully([n(1)], silent: [n(3)]))
        #expect(!world.state.canFailOverGracefully([n(2)]))
        #expect(!world.state.canFailOverGracefully([n(1), n(2)]))
        #expect(!world.state.canFailOverGracefully([n(1), n(2), n(3)]))
        // A node with replicas only has no copy that does not exist elsewhere.
        #expect(!world.state.haveOnlyCopies([n(1)]))
        #expect(world.state.haveOnlyCopies([n(1)], silent: [n(2)]))
        #expect(world.state.haveOnlyCopies([n(2)]))
    }

    @Test func changedGroupLayoutHasAnotherRevision() {
        var world = ClusterWorld(nodes: 2)
        let first = world.state.groupsRevision
        world.createBucket(rows: [[n(1), n(2)], [n(2), n(1)]])
        #expect(world.state.groupsRevision == first)
        let groups = world.state.groups + [ServerGroup(name: "Rack 2", uuid: "r2")]
        world.apply(.setGroups(GroupLayout(groups: groups, members: [])))
        let second = world.state.groupsRevision
        #expect(second != first)
        let member = GroupLayout.Member(node: n(2), group: "Rack 2")
        world.apply(.setGroups(GroupLayout(groups: groups, members: [member])))
        #expect(world.state.groupsRevision != second)
        #expect(world.state.refusal(ofGroupName: "Rack 2") != nil)
        #expect(world.state.refusal(ofGroupName: "Rack 2", except: "r2") == nil)
        #expect(world.state.refusal(ofGroupName: "") != nil)
    }
}
