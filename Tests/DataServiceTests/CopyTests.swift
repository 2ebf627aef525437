import Bytes
import DataService
import Engine
import Foundation
import Testing
import Vocabulary

/// Replication between several nodes, over real sockets.
@Suite(.serialized) struct CopyTests {
    /// Even vBuckets are active on node 1, odd ones on node 2, each with a replica on the other.
    private static func crossed(_ number: Int) -> [UInt16] { number % 2 == 0 ? [1, 2] : [2, 1] }

    private func pair(_ type: BucketType = .persistent) throws -> ClusterWorld {
        let world = try ClusterWorld(nodes: 2)
        let map = world.map("a", index: 1, chain: CopyTests.crossed)
        try world.open(world.settings("a", type), map)
        return world
    }

    private func convergeBoth(_ world: ClusterWorld, _ name: String = "a") {
        world.converge(name, 1, 2)
        world.converge(name, 2, 1)
    }

    /// The CAS and seqno of live documents only: tombstones leave memory too.
    private static func versions(_ node: ClusterNode, _ number: Int) -> [[UInt8]: [UInt64]] {
        node.documents("a", number).filter { !$0.value.isDeleted }
            .mapValues { [$0.seqno.value, $0.cas.value] }
    }

    @Test(arguments: [BucketType.persistent, .ephemeral])
    func changesAreReplicatedInBothDirections(_ type: BucketType) throws {
        let world = try pair(type)
        for round in 0..<3 {
            for node in [1, 2] { world[UInt16(node)].write(0..<300, "a", round: round) }
            for key in 0..<20 { world[1].delete("key\(key * 7)", "a") }
        }
        convergeBoth(world)
        let held = (0..<8).reduce(0) { $0 + world[2].documents("a", $1).count }
        #expect(held == 300)
        world.eventually("all copies are intact") {
            let reports = world[1].reports("a").values.map(\.isIntact)
            return reports.count == 8 && reports.allSatisfy { $0 }
        }
        for (number, report) in world[1].reports("a") {
            #expect(report.position == world[2].reports("a")[number]?.position)
            #expect(report.position.branchFence == 1)
            #expect(report.state == (number % 2 == 0 ? .active : .replica))
        }
    }

    @Test func newReplicaIsBuiltFromDiskThenReplicatesWithoutGap() throws {
        let world = try ClusterWorld(nodes: 2)
        try world.open(world.settings("a"), world.map("a", index: 1) { _ in [1] })
        world[1].write(0..<2_000, "a", size: 300)
        for key in 0..<100 { world[1].delete("key\(key)", "a") }
        world.eventually("everything is persisted") { world[1].isPersisted("a") }
        world[1].ejectAll("a")
        let ejected = world[1].documents("a", 0).values.count { $0.value == nil && !$0.isDeleted }
        #expect(ejected > 100)
        world.follow(world.map("a", index: 2) { _ in [1, 2] })
        world[1].write(1_000..<1_300, "a", round: 1)
        world.eventually("the copy has all keys") {
            (0..<8).allSatisfy { number in
                CopyTests.versions(world[1], number) == CopyTests.versions(world[2], number)
            }
        }
        let values = world[2].documents("a", 0).values.filter { !$0.isDeleted }
        #expect(values.allSatisfy { $0.value?.isEmpty != true })
    }

    @Test func restartedReplicaContinuesFromItsPosition() throws {
        let world = try pair()
        for node in [1, 2] { world[UInt16(node)].write(0..<300, "a") }
        convergeBoth(world)
        world.stop(2)
        world[1].write(200..<500, "a", round: 1)
        try world.start(2)
        let map = world.map("a", index: 1, chain: CopyTests.crossed)
        try world[2].service.open(world.settings("a"), map, as: NodeNumber(2), isNew: false)
        world.converge("a", 1, 2)
        #expect(!world[2].logged("Rebuilding"))
        // Node 1 was active for the odd vBuckets and stopped cleanly.
        #expect(world[2].activeNumbers("a") == [1, 3, 5, 7])
        #expect(world[2].reports("a").values.allSatisfy { $0.wasCleanStop })
        world[2].write(0..<300, "a", round: 2)
        world.converge("a", 2, 1)
        #expect(!world[1].logged("Rebuilding"))
    }

    @Test func crashedActiveCopyServesOnlyAfterActivation() throws {
        let world = try ClusterWorld(nodes: 2)
        let map = world.map("a", index: 1) { _ in [1, 2] }
        try world.open(world.settings("a"), map)
        world[1].write(0..<100, "a")
        world.converge("a", 1, 2)
        world.eventually("everything is persisted") { world[1].isPersisted("a") }
        world.kill(1)
        try world.start(1)
        try world[1].service.open(world.settings("a"), map, as: NodeNumber(1), isNew: false)
        #expect(!world[1].write("key1", "x", "a"))
        let reports = world[1].reports("a").values
        #expect(reports.count == 8)
        #expect(reports.allSatisfy { $0.state == .pending && !$0.isIntact && !$0.wasCleanStop })
    }

    @Test(arguments: 0..<20)
    func cutStreamsOfCopiesLoseNoChange(_ seed: UInt64) throws {
        var random = seed &* 0x9e37_79b9_7f4a_7c15 | 1
        func dice(_ bound: UInt64) -> UInt64 {
            random ^= random << 13
            random ^= random >> 7
            random ^= random << 17
            return random % bound
        }
        let world = try pair(seed % 4 == 0 ? .ephemeral : .persistent)
        for round in 0..<6 {
            let first = Int(dice(200))
            world[1].write(first..<first + 60, "a", size: Int(dice(3_000)), round: round)
            if dice(2) == 0 { world[1].cut() }
            world[2].write(first..<first + 60, "a", size: Int(dice(3_000)), round: round)
            if dice(2) == 0 { world[2].cut() }
            usleep(UInt32(dice(60_000)))
        }
        convergeBoth(world)
        #expect(!world[1].logged("invalid frame") && !world[2].logged("invalid frame"))
        #expect(!world[1].logged("Rebuilding") && !world[2].logged("Rebuilding"))
    }

    @Test func copiesOfAllBucketsConvergeOverOneStreamOfEachNode() throws {
        let world = try ClusterWorld(nodes: 2)
        let types: [(String, BucketType)] = [
            ("a", .persistent), ("b", .ephemeral), ("c", .persistent),
        ]
        for (name, type) in types {
            let map = world.map(name, index: 1, chain: CopyTests.crossed)
            try world.open(world.settings(name, type), map)
        }
        for (name, _) in types { world[1].write(0..<200, name, size: 1_000) }
        for (name, _) in types { world[2].write(0..<200, name, size: 1_000) }
        for (name, _) in types { convergeBoth(world, name) }
        try world[1].service.delete("b")
        try world[2].service.delete("b")
        world[1].write(200..<300, "a")
        convergeBoth(world)
        // Each node opens the stream of the copies that it receives.
        #expect(world.openedStreams.map(\.value).sorted() == [1, 2])
    }

    @Test func threeNodesConvergeToThreeCopies() throws {
        let world = try ClusterWorld(nodes: 3)
        let map = world.map("a", index: 1) { number in
            (0..<3).map { UInt16((number + $0) % 3 + 1) }
        }
        try world.open(world.settings("a"), map)
        for node in [1, 2, 3] { world[UInt16(node)].write(0..<300, "a") }
        for (one, other) in [(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)] {
            world.converge("a", UInt16(one), UInt16(other))
        }
    }

    @Test func replicaShortOfMemoryPausesStreamAndCatchesUp() throws {
        let world = try ClusterWorld(nodes: 2)
        let map = world.map("a", index: 1) { _ in [1] }
        for (node, quota) in [(UInt16(1), UInt64(64 << 20)), (2, 8 << 20)] {
            let settings = world.settings("a", .ephemeral, quota: quota)
            try world[node].service.open(settings, map, as: NodeNumber(node), isNew: true)
        }
        world[1].write(0..<500, "a", size: 60_000)
        world.follow(world.map("a", index: 2) { _ in [1, 2] })
        let other = try #require(world[2].service.bucket(named: "a")?.engine.account)
        world.eventually("the other node is full") { !other.admits(60_000) }
        // Changes that the slow reader needs stay in memory, beside the new versions.
        let account = try #require(world[1].service.bucket(named: "a")?.engine.account)
        var peak: UInt64 = 0
        for first in stride(from: 0, to: 500, by: 50) {
            world[1].write(first..<first + 50, "a", size: 60_000, round: 1)
            peak = max(peak, account.checkpointBytes)
        }
        #expect(peak > account.checkpointShare)
        world.eventually("slow cursors are dropped") {
            account.checkpointBytes <= account.checkpointShare
        }
        world[2].service.bucket(named: "a")?.change(
            world.settings("a", .ephemeral, quota: 128 << 20)
        )
        world.converge("a", 1, 2)
    }

    /// The streams of the full bucket are suspended, while others continue on the same connection.
    @Test func fullBucketDoesNotBlockStreamsOfOtherBuckets() throws {
        let world = try ClusterWorld(nodes: 2)
        for (name, quota) in [("a", UInt64(8 << 20)), ("b", 64 << 20)] {
            let map = world.map(name, index: 1) { _ in [1, 2] }
            for (node, quota) in [(UInt16(1), UInt64(128 << 20)), (2, quota)] {
                let settings = world.settings(name, .ephemeral, quota: quota)
                try world[node].service.open(settings, map, as: NodeNumber(node), isNew: true)
            }
        }
        world[1].write(0..<300, "a", size: 60_000)
        let account = try #require(world[2].service.bucket(named: "a")?.engine.account)
        world.eventually("the copies are full") { !account.admits(60_000) }
        world[1].write(0..<200, "b")
        world.converge("b", 1, 2)
        world[2].service.bucket(named: "a")?.change(
            world.settings("a", .ephemeral, quota: 128 << 20)
        )
        world.converge("a", 1, 2)
    }

    @Test func sealedReplicaAcceptsNoMoreChanges() throws {
        let world = try ClusterWorld(nodes: 2)
        try world.open(world.settings("a"), world.map("a", index: 1) { _ in [1, 2] })
        world[1].write(0..<100, "a")
        world.converge("a", 1, 2)
        let all = (0..<8).map { (vBucket: VBucketID(UInt16($0)), fence: UInt64(1)) }
        let sealed = world[2].service.seal("a", all)
        #expect(sealed.count == 8 && sealed.allSatisfy { $0.isIntact && $0.state == .replica })
        let before = (0..<8).map { world[2].documents("a", $0) }
        world[1].write(0..<200, "a", round: 1)
        usleep(200_000)
        #expect((0..<8).map { world[2].documents("a", $0) } == before)
        #expect(world[2].service.reports("a").map(\.position) == sealed.map(\.position))
        // A sealed active copy stops serving.
        _ = world[1].service.seal("a", all)
        #expect(!world[1].write("key1", "x", "a"))
        // The next fence ends the seal; the former active copy continues, since no other served.
        let next = world.map("a", index: 2, fence: 2) { _ in [1, 2] }
        world.follow(next)
        #expect(!world[1].write("key1", "x", "a"))
        let outcomes = world[1].service.activate(
            "a",
            (0..<8).map { CopyActivation(VBucketID(UInt16($0)), 2, reason: .resumption(fence: 1)) }
        )
        #expect(outcomes.count == 8)
        #expect(world[1].write("key1", "x", "a"))
        world.converge("a", 1, 2)
    }

    @Test func promotedCopyServesOnceConfirmedAndFormerActiveReplicates() throws {
        let world = try ClusterWorld(nodes: 3)
        try world.open(world.settings("a"), world.map("a", index: 1) { _ in [1, 2, 3] })
        world[1].write(0..<200, "a")
        world.converge("a", 1, 2)
        world.converge("a", 1, 3)
        let all = (0..<8).map { (vBucket: VBucketID(UInt16($0)), fence: UInt64(1)) }
        let positions = world[2].service.seal("a", all).map(\.position)
        _ = world[3].service.seal("a", all)
        // A change that no other copy has.
        world[1].write(0..<300, "a", round: 1)
        world.stop(1)
        world.follow(
            world.map("a", index: 2, fence: 2, isConfirmed: false) { _ in [2, 3] },
            on: [2, 3]
        )
        let tooMuch = CopyPosition(branchFence: 1, covered: Seqno(1 << 40))
        let refused = world[2].service.activate(
            "a",
            [CopyActivation(VBucketID(0), 2, reason: .promotion(expected: tooMuch))]
        )
        #expect(refused.count == 1)
        if case .ready = refused.first {
            Issue.record("a copy behind the expected position was promoted")
        }
        let outcomes = world[2].service.activate(
            "a",
            (0..<8).map {
                CopyActivation(
                    VBucketID(UInt16($0)),
                    2,
                    reason: .promotion(expected: positions[$0])
                )
            }
        )
        for outcome in outcomes {
            if case .refused(let report) = outcome { Issue.record("refused: \(report)") }
        }
        #expect(!world[2].write("key1", "early", "a"))
        let confirmed = world.map("a", index: 3, fence: 2) { _ in [2, 3, 1] }
        world.follow(confirmed, on: [2, 3])
        #expect(world[2].write("key1", "served", "a"))
        world.converge("a", 2, 3)
        #expect(!world[3].logged("Rebuilding"))
        try world.start(1)
        try world[1].service.open(world.settings("a"), confirmed, as: NodeNumber(1), isNew: false)
        world.converge("a", 2, 1)
        #expect(world[1].logged("Rebuilding"))
        #expect(world[1].reports("a")[0]?.position.branchFence == 2)
    }

    /// The active node's writes are lost with it, and no other copy was promised any.
    @Test func replicaOfNewBucketCanTakeOverBeforeFirstChange() throws {
        let world = try ClusterWorld(nodes: 3)
        let map = world.map("a", index: 1, origin: 1) { _ in [1, 2] }
        // Node 1 does not have the bucket, so node 2 receives nothing of it.
        for node in [2, 3] as [UInt16] {
            let number = NodeNumber(node)
            try world[node].service.open(world.settings("a"), map, as: number, isNew: true)
        }
        let reports = world[2].reports("a").values
        #expect(reports.count == 8)
        #expect(reports.allSatisfy { $0.isIntact && $0.position.branchFence == 1 })
        // A node that joins the chain later was not there from the start, and neither was a copy
        // from before a restart.
        let joined = world.map("a", index: 2, origin: 1) { _ in [1, 2, 3] }
        world.follow(joined, on: [2, 3])
        #expect(world[3].reports("a").values.allSatisfy { !$0.isIntact })
        world.follow(world.map("a", index: 3, fence: 3, origin: 1) { _ in [2, 3] }, on: [2, 3])
        let outcomes = world[2].service.activate(
            "a",
            (0..<8).map {
                let expected = CopyPosition(branchFence: 1, covered: .zero)
                return CopyActivation(
                    VBucketID(UInt16($0)),
                    3,
                    reason: .promotion(expected: expected)
                )
            }
        )
        for outcome in outcomes {
            if case .refused(let report) = outcome { Issue.record("refused: \(report)") }
        }
        world[2].write(0..<100, "a")
        world.converge("a", 2, 3)
    }

    @Test func handOverMovesVBucketWithoutLosingWrites() throws {
        let world = try ClusterWorld(nodes: 2)
        try world.open(world.settings("a"), world.map("a", index: 1) { _ in [1, 2] })
        world[1].write(0..<200, "a")
        world.eventually("the copies are intact") {
            let reports = world[2].service.reports("a")
            return reports.count == 8 && reports.allSatisfy(\.isIntact)
        }
        var finals: [Int: Seqno] = [:]
        for number in 0..<8 {
            let isDone = DispatchSemaphore(value: 0)
            let outcome = Guarded<HandOverOutcome>(.refused)
            world[1].service.handOver("a", VBucketID(UInt16(number)), fence: 1) { found in
                outcome.withLock { $0 = found }
                isDone.signal()
            }
            isDone.wait()
            guard case .drained(let final) = outcome.withLock({ $0 }) else {
                Issue.record("vBucket \(number) was not drained")
                return
            }
            finals[number] = final
        }
        #expect(!world[1].write("key1", "x", "a"))
        world.follow(world.map("a", index: 2, fence: 2) { _ in [2, 1] })
        let outcomes = world[2].service.activate(
            "a",
            (0..<8).map {
                CopyActivation(
                    VBucketID(UInt16($0)),
                    2,
                    reason: .takeover(final: finals[$0] ?? .zero)
                )
            }
        )
        for outcome in outcomes {
            if case .refused(let report) = outcome { Issue.record("refused: \(report)") }
        }
        #expect(world[2].write("key1", "there", "a"))
        world.converge("a", 2, 1)
        #expect(!world[1].logged("Rebuilding"))
    }

    @Test func copyRemovedByMapIsDroppedFromMemoryAndDisk() throws {
        let world = try pair()
        for node in [1, 2] { world[UInt16(node)].write(0..<200, "a") }
        convergeBoth(world)
        world.eventually("everything is persisted") { world[2].isPersisted("a") }
        let map = world.map("a", index: 2) { $0 % 2 == 0 ? [1] : [2, 1] }
        world.follow(map)
        world.eventually("the memory of the copy is empty") {
            (0..<4).allSatisfy { world[2].documents("a", 2 * $0).isEmpty }
        }
        #expect(world[2].service.reports("a").map(\.vBucket.number) == [1, 3, 5, 7])
        world.stop(2)
        try world.start(2)
        try world[2].service.open(world.settings("a"), map, as: NodeNumber(2), isNew: false)
        #expect(world[2].service.reports("a").map(\.vBucket.number) == [1, 3, 5, 7])
        // The map assigns the copy again.
        world.follow(world.map("a", index: 3, chain: CopyTests.crossed))
        convergeBoth(world)
    }
}
