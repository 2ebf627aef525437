import Bytes
import ClusterService
import Consensus
import Orchestration
import Persistence
import TestSupport
import Testing
import Vocabulary

/// Loss of a majority, with real services, sockets and files.
@Suite(.serialized) struct EpochSceneTests {
    func scene(_ count: Int, _ rows: [NodeChain], replicas: Int = 1) async throws -> ClusterScene {
        let scene = try ClusterScene(count)
        try await scene.build()
        try await scene.createBucket(rows, replicas: replicas)
        return scene
    }

    func n(_ number: Int) -> NodeNumber { NodeNumber(UInt16(number)) }

    @Test func lostMajorityIsFailedOverOnlyWithAllowUnsafe() async throws {
        let rows: [NodeChain] = [[n(1), n(2)], [n(2), n(1)], [n(2), n(3)]]
        let scene = try await scene(3, rows)
        defer { scene.stop() }
        for number in [2, 3] { scene.members[number - 1].stop() }
        let names = [scene.name(2), scene.name(3)]

        let missing = await Result(
            of: try await scene[1].membership.failOver([names[0]], by: root, isUnsafe: true)
        )
        guard case .failure(.refused(let missed)) = missing else {
            Issue.record("\(missing)")
            return
        }
        #expect(missed.contains(":40003") && missed.contains("does not answer"))
        #expect(scene[1].state.revEpoch == 1 && scene[1].state.nodes.count == 3)
        let plain = await Result(of: try await scene[1].membership.failOver(names, by: root))
        guard case .failure(.failed(let sentence)) = plain else {
            Issue.record("not refused")
            return
        }
        for words in [
            "there is no quorum", "Only 1 of the cluster's 3", "2 are needed", "allowUnsafe=true",
            "vBucket 2 has no copy there", "the copies there of vBucket 1 may lack",
        ] {
            #expect(sentence.contains(words), "\(sentence)")
        }

        let text = try await scene[1].membership.failOver(names, by: root, isUnsafe: true)
        #expect(text.contains("vBucket 2 has no copy left"), "\(text)")
        let state = scene[1].state
        #expect(state.revEpoch == 2 && state.pastGroups.count == 1)
        #expect(state.nodes.map(\.number) == [n(1)])
        #expect(scene.chains(at: 1) == [[n(1)], [n(1)], []])
        #expect(state.bucket(named: "b")?.placements[1].isConfirmed == true)
        #expect(try await scene[1].cluster.readCurrent().revEpoch == 2)

        // The result is the same after a restart, and the node left behind becomes a new node.
        scene.members[0].stop()
        try await scene.members[0].start()
        #expect(scene[1].state.revEpoch == 2)
        try await scene.members[1].start()
        // It has a new identity then.
        #expect(
            await eventually {
                let state = scene[2].state
                return !state.isProvisioned && state.node(number: scene[2].thisNode) != nil
            }
        )
        // It may open the bucket once, before it learns that it was left behind.
        let opens = { scene.members[1].plane?.calls.count { $0 == "open b" } ?? 0 }
        let before = opens()
        let again = await Result(
            of: try await scene[1].membership.addNode(
                "127.0.0.1:\(scene.members[1].ports.admin)",
                token: "",
                services: ["kv"],
                by: root
            )
        )
        #expect(again == .success(scene.name(2)))
        #expect(scene[1].state.nodes.map(\.number) == [n(1), n(4)])
        // After it is added again it carries out commands as before.
        let known = scene[1].state.nodes.map(\.otpNode)
        _ = await Result(
            of: try await scene[1].membership.rebalance(known: known, ejected: [], by: root)
        )
        #expect(await eventually { opens() > before })
    }

    @Test func survivorWithFullDiskJoinsNewEpochLater() async throws {
        let rows: [NodeChain] = [[n(4), n(1)], [n(3), n(2)], [n(1), n(3)], [n(2), n(4)]]
        let scene = try await scene(4, rows)
        defer { scene.stop() }
        for number in [3, 4] { scene.members[number - 1].stop() }
        let names = [scene.name(3), scene.name(4)]
        // The node cannot store the epoch: it stays in the old one, as after a crash.
        try scene[2].cluster.controlStore.limit(pages: 1)
        async let order = Result(
            of: try await scene[1].membership.failOver(names, by: root, isUnsafe: true)
        )
        #expect(await eventually { scene[1].state.revEpoch == 2 })
        #expect(scene[1].state.leftBehind == [n(3), n(4)])
        #expect(scene[2].state.revEpoch == 1)
        // One of two nodes is no majority.
        #expect(scene[1].cluster.raftStatus.configuration.voters == [n(1), n(2)])
        #expect(!scene[1].cluster.raftStatus.isReadyToLead)
        try scene[2].cluster.controlStore.limit(pages: 0)
        guard case .success = await order else {
            Issue.record("not done")
            return
        }
        #expect(
            await eventually {
                scene[2].state.revEpoch == 2 && scene.chains(at: 2).first == [n(1)]
            }
        )
        #expect(scene.chains(at: 1) == [[n(1)], [n(2)], [n(1)], [n(2)]])
        // The node left behind is removed last.
        #expect(await eventually { scene[2].state.nodes.map(\.number) == [n(1), n(2)] })
        // The other node reports the same cluster.
        #expect(try await scene[2].cluster.readCurrent().groupID == scene[1].state.groupID)
    }

    @Test func unsafeFailoverWithMajorityBeginsNoEpoch() async throws {
        let scene = try await scene(3, [[n(3), n(1)], [n(1), n(2)]])
        defer { scene.stop() }
        scene.members[2].stop()
        guard
            case .success = await Result(
                of: try await scene[1].membership.failOver(
                    [scene.name(3)],
                    by: root,
                    isUnsafe: true
                )
            )
        else {
            Issue.record("not failed over")
            return
        }
        #expect(scene[1].state.revEpoch == 1)
        #expect(scene[1].state.node(number: n(3))?.membership == .inactiveFailed)
    }

    /// A lone node of the new epoch needs no promise, and acts by the map of the old epoch until it
    /// has changed over.
    @Test func leaseOfNewEpochDoesNotCountForMapOfOldEpoch() async throws {
        let scene = try await scene(3, [[n(2), n(1)], [n(1), n(3)]])
        defer { scene.stop() }
        for number in [2, 3] { scene.members[number - 1].stop() }
        let names = [scene.name(2), scene.name(3)]
        guard
            case .success = await Result(
                of: try await scene[1].membership.failOver(names, by: root, isUnsafe: true)
            )
        else {
            Issue.record("not done")
            return
        }
        let plane = try #require(scene.members[0].plane)
        // Before, no lease was unlimited: there were three nodes.
        let endless = {
            plane.leases.withLock { $0 }.filter { $0.endNanoseconds == .max && $0.maps["b"] != nil }
        }
        #expect(await eventually { !endless().isEmpty })
        // The other vBucket waits for its promotion.
        for lease in endless() { #expect(lease.maps["b"]?.vBuckets[1].chain == [n(1)]) }
    }

    /// No other node has its vBucket: it stays in the chain, and leaves the cluster all the same.
    @Test func newEpochLeavesVBucketOnPreviouslyFailedOverNode() async throws {
        let scene = try await scene(5, [[n(4), n(3), n(1)], [n(2), n(1)]], replicas: 2)
        defer { scene.stop() }
        let plane = try #require(scene.members[0].plane)
        plane.isEmpty.withLock { $0 = true }
        scene.members[2].stop()
        guard
            case .success = await Result(
                of: try await scene[1].membership.failOver([scene.name(4)], by: root)
            )
        else {
            Issue.record("not failed over")
            return
        }
        // The silent node may have the data, and the answering node has none.
        #expect(scene.chains(at: 1).first == [n(4), n(3), n(1)])
        scene.members[4].stop()
        let names = [scene.name(3), scene.name(5)]
        guard
            case .success(let text) = await Result(
                of: try await scene[1].membership.failOver(
                    names,
                    by: root,
                    isUnsafe: true
                )
            )
        else {
            Issue.record("not done")
            return
        }
        #expect(scene.chains(at: 1) == [[n(4), n(1)], [n(2), n(1)]], "\(text)")
        #expect(scene[1].state.nodes.map(\.number) == [n(1), n(2), n(4)])
    }
}
