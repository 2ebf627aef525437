import Replication
import Testing
import Vocabulary

/// What is done with a copy when the map says something new: the whole table.
@Suite struct CopyPlanTests {
    private let own = NodeNumber(1)

    private func map(
        _ chain: [UInt16],
        fence: UInt64 = 5,
        stage: UInt64 = 5,
        isConfirmed: Bool = true,
        builders: [UInt16] = [],
        former: UInt16? = nil
    ) -> VBucketAssignment {
        VBucketAssignment(
            fence: fence,
            stage: stage,
            chain: chain.map { NodeNumber($0) },
            isConfirmed: isConfirmed,
            builders: builders.map { NodeNumber($0) },
            former: former.map { NodeNumber($0) },
            copies: 2
        )
    }

    private func copy(
        _ state: VBucketState,
        fence: UInt64 = 5,
        exists: Bool = true,
        isSealed: Bool = false,
        ready: UInt64? = nil,
        clean: Bool = true
    ) -> CopyPlan.Copy {
        CopyPlan.Copy(
            exists: exists,
            state: state,
            fence: fence,
            isSealed: isSealed,
            readyFence: ready,
            wasCleanStop: clean
        )
    }

    private func action(
        _ copy: CopyPlan.Copy,
        _ map: VBucketAssignment,
        isNew: Bool = false
    ) -> CopyPlan.Action {
        CopyPlan.action(for: copy, map, own: own, isNew: isNew)
    }

    @Test func olderMapIsIgnored() {
        #expect(action(copy(.active, fence: 6), map([2])) == .ignore)
        var later = copy(.active)
        later.stage = 6
        #expect(action(later, map([2])) == .ignore)
    }

    @Test func copyOlderThanVBucketsOriginCountsAsAbsent() {
        var map = map([1, 2])
        map.origin = 5
        var old = copy(.active)
        (old.branchFence, old.isEmpty) = (4, false)
        #expect(CopyPlan.isOutlived(old, map))
        #expect(action(old, map) == .hold)
        var other = self.map([2, 1])
        other.origin = 5
        #expect(action(old, other) == .follow)
        var kept = self.map([2], former: 1)
        kept.origin = 5
        #expect(action(old, kept) == .drop)

        var current = old
        current.branchFence = 5
        #expect(!CopyPlan.isOutlived(current, map))
        #expect(action(current, map) == .stay)
        var empty = old
        empty.isEmpty = true
        #expect(!CopyPlan.isOutlived(empty, map))
        // Of a time before maps.
        var first = old
        first.branchFence = 0
        #expect(!CopyPlan.isOutlived(first, map))
        // A map that is older than what the copy followed says nothing about it.
        var later = old
        later.fence = 6
        #expect(!CopyPlan.isOutlived(later, map))
    }

    @Test func onlyCopyOfFirstChainIsCreatedComplete() {
        let none = copy(.dead, fence: 0, exists: false)
        var made = map([2, 1])
        (made.origin, made.stage) = (5, 5)
        func isWhole(
            _ copy: CopyPlan.Copy,
            _ map: VBucketAssignment,
            _ isNew: Bool = true
        ) -> Bool {
            CopyPlan.isBornWhole(copy, map, own: own, isNew: isNew)
        }
        #expect(isWhole(none, made))
        // A life before may have acknowledged something.
        #expect(!isWhole(none, made, false))
        #expect(!isWhole(copy(.replica), made))
        // It was active elsewhere meanwhile, or chains were changed.
        var later = made
        (later.fence, later.stage) = (6, 6)
        #expect(!isWhole(none, later))
        later = made
        later.stage = 6
        #expect(!isWhole(none, later))
        var building = map([2], builders: [1])
        (building.origin, building.stage) = (5, 5)
        #expect(!isWhole(none, building))
        // Of a time before maps.
        var first = made
        (first.origin, first.fence, first.stage) = (0, 0, 0)
        #expect(!isWhole(none, first))
    }

    @Test func onlyNewBucketsCopyIsCreatedServing() {
        let none = copy(.dead, fence: 0, exists: false)
        #expect(action(none, map([1, 2]), isNew: true) == .create)
        #expect(action(none, map([1, 2])) == .hold)
        #expect(action(none, map([1, 2], isConfirmed: false), isNew: true) == .hold)
    }

    @Test func copyActiveUnderSameFenceStaysUnlessCrashedOrSealed() {
        #expect(action(copy(.active), map([1, 2])) == .stay)
        #expect(action(copy(.active, isSealed: true), map([1, 2])) == .hold)
        #expect(action(copy(.active, clean: false), map([1, 2])) == .hold)
        #expect(action(copy(.dead), map([1, 2])) == .hold)
        #expect(action(copy(.active, fence: 4), map([1, 2])) == .hold)
    }

    /// If the fence changes but not the active copy, service continues.
    @Test func servingCopyContinuesUnderResumedFence() {
        var resumed = map([1, 2])
        resumed.isResumed = true
        var served = copy(.active, fence: 4)
        served.servedFence = 4
        #expect(action(served, resumed) == .goOn)
        #expect(action(served, map([1, 2])) == .hold)
        func isHeld(_ change: (inout CopyPlan.Copy) -> Void) -> Bool {
            var other = served
            change(&other)
            return action(other, resumed) == .hold
        }
        // It served before a restart, or last under another fence.
        #expect(isHeld { $0.servedFence = nil })
        #expect(isHeld { $0.servedFence = 3 })
        #expect(isHeld { $0.state = .pending })
        #expect(isHeld { $0.state = .dead })
        #expect(isHeld { $0.isSealed = true })
        // The vBucket was emptied since.
        resumed.origin = 3
        #expect(isHeld { ($0.branchFence, $0.isEmpty) = (2, true) })
        #expect(isHeld { ($0.branchFence, $0.isEmpty) = (2, false) })
        #expect(!isHeld { ($0.branchFence, $0.isEmpty) = (3, false) })
        // Another one goes on.
        var other = map([2, 1])
        other.isResumed = true
        #expect(action(served, other) == .follow)
    }

    @Test func activatedCopyServesOnceConfirmed() {
        #expect(action(copy(.pending, ready: 5), map([1, 2])) == .serve)
        #expect(action(copy(.pending, ready: 4), map([1, 2])) == .hold)
        #expect(action(copy(.pending, ready: 5), map([1], isConfirmed: false)) == .hold)
        // Sealed since: it said that it takes nothing more.
        #expect(action(copy(.pending, isSealed: true, ready: 5), map([1, 2])) == .hold)
        #expect(action(copy(.active, isSealed: true, ready: 5), map([1, 2])) == .hold)
    }

    @Test func copyFromBeforeMapsServesOnOnlyNodeOfChain() {
        #expect(action(copy(.active, fence: 0), map([1])) == .serve)
        #expect(action(copy(.active, fence: 0), map([1, 2])) == .hold)
        #expect(action(copy(.active, fence: 0, clean: false), map([1])) == .hold)
    }

    @Test func nonActiveCopyReplicatesIsKeptOrIsDroppedByMap() {
        for state in [VBucketState.active, .replica, .pending, .dead] {
            #expect(action(copy(state), map([2, 1])) == .follow)
            #expect(action(copy(state), map([2], builders: [1])) == .follow)
            #expect(action(copy(state), map([2], former: 1)) == .keep)
            #expect(action(copy(state), map([2, 3])) == .drop)
        }
        let none = copy(.dead, exists: false)
        #expect(action(none, map([2, 1])) == .follow)
        #expect(action(none, map([2], former: 1)) == .stay)
        #expect(action(none, map([2, 3])) == .stay)
    }
}

@Suite struct TopologyTests {
    private func map(_ uuid: String, _ chains: [[UInt16]], isConfirmed: Bool = true)
        -> BucketAssignment
    {
        BucketAssignment(
            name: uuid,
            uuid: uuid,
            index: 1,
            vBuckets: chains.enumerated().map { number, chain in
                VBucketAssignment(
                    fence: UInt64(10 + number),
                    stage: 1,
                    chain: chain.map { NodeNumber($0) },
                    isConfirmed: isConfirmed,
                    copies: 2
                )
            }
        )
    }

    private let own = NodeNumber(1)

    @Test func nodeReplicatesFromActiveNodesOfItsReplicas() {
        var topology = ReplicationTopology()
        let changed = topology.update(
            map("a", [[1, 2], [2, 1], [3, 1], [3, 2], [2, 1]]),
            own: own
        )
        #expect(changed == [NodeNumber(2), NodeNumber(3)])
        #expect(
            topology.feeds[NodeNumber(2)]?["a"]?.vBuckets == [VBucketID(1): 11, VBucketID(4): 14]
        )
        #expect(topology.feeds[NodeNumber(3)]?["a"]?.vBuckets == [VBucketID(2): 12])
    }

    @Test func topologyUpdateReturnsOnlyNodesWithChangedFeeds() {
        var topology = ReplicationTopology()
        _ = topology.update(map("a", [[2, 1], [3, 1]]), own: own)
        #expect(topology.update(map("a", [[2, 1], [3, 1]]), own: own).isEmpty)
        #expect(topology.update(map("b", [[2, 1]]), own: own) == [NodeNumber(2)])
        #expect(topology.update(map("a", [[2, 1], [2, 1]]), own: own).count == 2)
        #expect(topology.feeds[NodeNumber(3)] == nil)
        #expect(topology.remove(bucket: "a") == [NodeNumber(2)])
        #expect(topology.feeds[NodeNumber(2)]?.keys.sorted() == ["b"])
    }

    @Test func unconfirmedActiveCopyIsNotReplicated() {
        var topology = ReplicationTopology()
        #expect(topology.update(map("a", [[2, 1]], isConfirmed: false), own: own).isEmpty)
    }
}
