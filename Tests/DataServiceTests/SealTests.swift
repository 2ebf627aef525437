import Bytes
import DataService
import Foundation
import Testing
import Vocabulary

/// Sealed copies, over real sockets.
@Suite(.serialized) struct SealTests {
    private let all = (0..<8).map { VBucketID(UInt16($0)) }

    /// The same fence in a newer map concerns another vBucket, and does not end the seal.
    @Test(arguments: [false, true])
    func stoppedActiveCopyNeverServesAgainUnderSameFence(_ isSealed: Bool) throws {
        let world = try ClusterWorld(nodes: 2)
        try world.open(world.settings("a"), world.map("a", index: 1) { _ in [1, 2] })
        world[1].write(0..<100, "a")
        world.follow(world.map("a", index: 2, fence: 2) { _ in [1, 2] })
        let all = (0..<8).map { VBucketID(UInt16($0)) }
        let outcomes = world[1].service.activate(
            "a",
            all.map { CopyActivation($0, 2, reason: .resumption(fence: 1)) }
        )
        for outcome in outcomes {
            if case .refused(let report) = outcome { Issue.record("refused: \(report)") }
        }
        #expect(world[1].write("key1", "served", "a"))
        world.eventually("the copies are intact") {
            let reports = world[2].service.reports("a")
            return reports.count == 8 && reports.allSatisfy(\.isIntact)
        }
        if isSealed {
            _ = world[1].service.seal("a", all.map { ($0, 2) })
        } else {
            for vBucket in all {
                let isDone = DispatchSemaphore(value: 0)
                world[1].service.handOver("a", vBucket, fence: 2) { outcome in
                    if case .drained = outcome {} else { Issue.record("\(vBucket): \(outcome)") }
                    isDone.signal()
                }
                isDone.wait()
            }
        }
        #expect(!world[1].write("key1", "stopped", "a"))
        world.follow(world.map("a", index: 3, fence: 2) { _ in [1, 2] })
        #expect(!world[1].write("key1", "once more", "a"))
        world.follow(world.map("a", index: 4, fence: 2) { _ in [1, 2] })
        #expect(!world[1].write("key1", "and again", "a"))
        #expect(world[1].reports("a").values.allSatisfy { $0.state == .pending })
    }

    /// A new active copy may crash before replicas receive its first change: they are intact, and
    /// report it.
    ///
    /// After a promotion they first have to receive from the promoted copy.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func intactCopyStaysIntactUntilBranch(_ branch: UInt64) throws {
        let world = try ClusterWorld(nodes: 3)
        try world.open(world.settings("a"), world.map("a", index: 1) { _ in [1, 2] })
        world[1].write(0..<100, "a")
        let reports = { world[2].service.reports("a") }
        world.eventually("the copies are intact") {
            reports().count == 8 && reports().allSatisfy { $0.isIntact && $0.hasCaughtUp }
        }
        // Two steps at once, as a busy node sees them; node 3 never serves.
        world.follow(world.map("a", index: 3, fence: 3, branch: branch) { _ in [3, 2] }, on: [2])
        #expect(reports().allSatisfy { $0.fence == 3 && !$0.hasCaughtUp })
        #expect(reports().allSatisfy { $0.isIntact == (branch == 1) })
        let sealed = world[2].service.seal("a", all.map { ($0, 3) })
        #expect(sealed.count == 8 && sealed.allSatisfy { $0.isIntact == (branch == 1) })
        // A crash ends it in any case: changes acknowledged from memory are lost.
        world.kill(2)
        try world.start(2)
        let map = world.map("a", index: 4, fence: 3, branch: branch) { _ in [3, 2] }
        try world[2].service.open(world.settings("a"), map, as: NodeNumber(2), isNew: false)
        #expect(reports().count == 8 && reports().allSatisfy { !$0.isIntact && !$0.hasCaughtUp })
    }

    /// A third copy was removed: the second one has to receive from the active one, which stays
    /// active.
    @Test func activeCopyServesAcrossFencesAndReplicasCatchUpAgain() throws {
        let world = try ClusterWorld(nodes: 2)
        try world.open(world.settings("a"), world.map("a", index: 1) { _ in [1, 2, 3] })
        world[1].write(0..<100, "a")
        let reports = { world[2].service.reports("a") }
        world.eventually("the copies are intact") {
            reports().count == 8 && reports().allSatisfy(\.isIntact)
        }
        let next = world.map("a", index: 2, fence: 2, branch: 2, isResumed: true) { _ in [1, 2] }
        world.follow(next, on: [2])
        #expect(reports().allSatisfy { $0.fence == 2 && !$0.isIntact })
        #expect(world[1].write("key1", "before", "a"))
        world.follow(next, on: [1])
        #expect(world[1].write("key1", "after", "a"))
        #expect(world[1].reports("a").values.allSatisfy { $0.state == .active && $0.isIntact })
        world.eventually("the copies are intact again") { reports().allSatisfy(\.isIntact) }
        world.converge("a", 1, 2)
    }

    /// It serves at once, since there is no other copy; changes that other nodes have of it may be
    /// lost.
    @Test func crashedSingleCopyBeginsHistoryThatReplicasAdopt() throws {
        let world = try ClusterWorld(nodes: 2)
        let map = world.map("a", index: 1, builders: [2]) { _ in [1] }
        try world.open(world.settings("a"), map)
        world[1].write(0..<100, "a")
        let histories = { world[$0].reports("a").mapValues(\.history) }
        let isBuilt = {
            let reports = world[2].reports("a")
            return reports.count == 8 && reports.values.allSatisfy(\.hasCaughtUp)
                && histories(1) == histories(2)
        }
        world.eventually("the copies are built", isBuilt)
        let before = histories(2)
        world.kill(1)
        #expect(histories(2) == before)
        try world.start(1)
        try world[1].service.open(world.settings("a"), map, as: NodeNumber(1), isNew: false)
        world.eventually("node 1 serves") { world[1].activeNumbers("a").count == 8 }
        #expect(world[1].reports("a").allSatisfy { $0.value.history != before[$0.key] })
        #expect(world[1].reports("a").values.allSatisfy { $0.fence == 1 })
        world.eventually("the copies are rebuilt", isBuilt)
    }

    /// It handed over, and the next active copy may have accepted changes since.
    @Test func handedOverCopyNeitherServesNorFeedsAfterRestart() throws {
        let world = try ClusterWorld(nodes: 2)
        let map = world.map("a", index: 1) { _ in [1, 2] }
        try world.open(world.settings("a"), map)
        world[1].write(0..<100, "a")
        world.converge("a", 1, 2)
        world.eventually("everything is persisted") { world[1].isPersisted("a") }
        for vBucket in all {
            let isDone = DispatchSemaphore(value: 0)
            world[1].service.handOver("a", vBucket, fence: 1) { outcome in
                if case .drained = outcome {} else { Issue.record("\(vBucket): \(outcome)") }
                isDone.signal()
            }
            isDone.wait()
        }
        world.stop(1)
        try world.start(1)
        try world[1].service.open(world.settings("a"), map, as: NodeNumber(1), isNew: false)
        #expect(world[1].reports("a").values.allSatisfy { $0.state == .pending })
        #expect(!world[1].write("key1", "x", "a"))
    }

    /// A promoted copy was slow, so the remaining copies were sealed a second time under its fence;
    /// then the promoted copy was confirmed.
    @Test func confirmationEndsRepeatedSealUnderItsFence() throws {
        let world = try ClusterWorld(nodes: 2)
        try world.open(world.settings("a"), world.map("a", index: 1) { _ in [1, 2] })
        world[1].write(0..<100, "a")
        world.converge("a", 1, 2)
        world.follow(world.map("a", index: 2, fence: 2, isConfirmed: false) { _ in [1, 2] })
        let reports = world[2].service.seal("a", all.map { ($0, 2) })
        #expect(reports.allSatisfy { $0.isSealed && $0.fence == 2 })
        let outcomes = world[1].service.activate(
            "a",
            all.map { CopyActivation($0, 2, reason: .promotion(expected: nil)) }
        )
        for outcome in outcomes {
            if case .refused(let report) = outcome { Issue.record("refused: \(report)") }
        }
        world.follow(world.map("a", index: 3, fence: 2) { _ in [1, 2] })
        #expect(world[2].service.reports("a").allSatisfy { !$0.isSealed })
        world[1].write(0..<100, "a", round: 1)
        world.converge("a", 1, 2)
    }

    /// Until another fence ends the seal, it has to be visible that the copy lags.
    @Test func copySealedUnderConfirmedFenceIsCounted() throws {
        let world = try ClusterWorld(nodes: 2)
        try world.open(world.settings("a"), world.map("a", index: 1) { _ in [1, 2] })
        let sealed = { world[2].service.bucket(named: "a")?.totals[.sealedVBuckets] }
        #expect(sealed() == 0)
        _ = world[2].service.seal("a", all.prefix(3).map { ($0, 1) })
        #expect(sealed() == 3)
        world.follow(world.map("a", index: 2, fence: 2, isConfirmed: false) { _ in [1, 2] })
        #expect(sealed() == 0)
        _ = world[2].service.seal("a", all.map { ($0, 2) })
        #expect(sealed() == 0)
    }

    /// A node restarts with a seal of a fence that its own map does not have yet.
    @Test func copyReachingSealedFenceIsSealedAtOnce() throws {
        let world = try ClusterWorld(nodes: 2)
        try world.open(world.settings("a"), world.map("a", index: 1) { _ in [1, 2] })
        world[1].write(0..<100, "a")
        world.converge("a", 1, 2)
        let next = world.map("a", index: 2, fence: 2, isResumed: true) { _ in [1, 2] }
        let seals: [(vBucket: VBucketID, fence: UInt64)] = all.map { ($0, $0.number < 4 ? 2 : 1) }
        for node in [1, 2] as [UInt16] {
            world[node].service.applyMap(next, as: NodeNumber(node), seals: seals)
            let reports = world[node].service.reports("a")
            #expect(reports.count == 8 && reports.allSatisfy { $0.fence == 2 })
            #expect(reports.filter(\.isSealed).map(\.vBucket) == Array(all.prefix(4)))
        }
        let served = world[1].service.reports("a").filter { $0.state == .active }
        #expect(served.map(\.vBucket) == Array(all.suffix(4)))
        // The next fence ends the seal.
        world.follow(world.map("a", index: 3, fence: 3) { _ in [1, 2] })
        #expect(world[2].service.reports("a").allSatisfy { !$0.isSealed })
    }

    @Test func sealSurvivesRestart() throws {
        let world = try ClusterWorld(nodes: 2)
        let map = world.map("a", index: 1) { _ in [1, 2] }
        try world.open(world.settings("a"), map)
        world[1].write(0..<100, "a")
        world.converge("a", 1, 2)
        let all = (0..<8).map { (vBucket: VBucketID(UInt16($0)), fence: UInt64(1)) }
        for node in [1, 2] as [UInt16] {
            world.stop(node)
            try world.start(node)
            try world[node].service.open(
                world.settings("a"),
                map,
                as: NodeNumber(node),
                isNew: false,
                seals: all
            )
        }
        #expect(!world[1].write("key1", "x", "a"))
        let reports = world[2].service.reports("a")
        #expect(reports.count == 8 && reports.allSatisfy(\.isIntact))
        // A map with the same entry of the vBucket does not end the seal.
        world.follow(world.map("a", index: 2, fence: 1) { _ in [1, 2] })
        #expect(!world[1].write("key1", "x", "a"))
    }
}
