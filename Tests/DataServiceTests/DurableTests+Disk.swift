import Bytes
import DataService
import Engine
import Foundation
import Seams
import TestWorld
import Testing
import Vocabulary

/// Commits that need a document that is only on disk.
extension DurableTests {
    /// This node has a replica with a prepared write to `key`, and becomes the active node of its
    /// vBucket; the version that the write replaces is only on disk.
    private func inherit(_ key: String, replacing old: String, by new: String) throws {
        var settings = TestWorld.settings("guests", .persistent)
        settings.evictionPolicy = .fullEviction
        let own = NodeNumber(1)
        try world.service.open(settings, DurableTests.map([1, 2]), as: own, isNew: true)
        #expect(client().ask(Ask.set(key, old)).map(\.status) == [0])
        world.pass(milliseconds: 500)
        world.service.applyMap(DurableTests.map([2, 1], index: 2, fence: 2), as: own)
        // A frequently used document survives the first pass.
        for _ in 0..<2 { world.ejectAll(from: "guests") }
        let engine = try #require(world.service.bucket(named: "guests")).engine
        let id = VBucketID(ofKey: Array(key.utf8), count: 64)
        let vBucket = try #require(engine[id.number])
        #expect(vBucket.withCore { $0.table.stubCount } == 1)
        let turn = world.turn
        let outcome = Array(key.utf8).withUnsafeBytes { key in
            Array(new.utf8).withUnsafeBytes { new in
                vBucket.withCore { core -> ApplyOutcome in
                    let seqno = Seqno(core.highSeqno.value + 1)
                    let range = SnapshotRange(start: core.highSeqno, end: seqno)
                    guard core.beginSnapshot(range) else { return .refused }
                    return core.applyPrepare(
                        DocumentMeta(seqno: seqno, cas: CAS(world.time.wallNanoseconds())),
                        level: .majority,
                        key: ByteView(key),
                        hash: engine.hash(ByteView(key)),
                        value: ByteView(new),
                        turn
                    )
                }
            }
        }
        if case .applied = outcome {} else { Issue.record("\(outcome)") }
        let chosen = DurableTests.map([1], copies: 1, index: 3, fence: 3, isConfirmed: false)
        world.service.applyMap(chosen, as: own)
        let outcomes = world.service.activate(
            "guests",
            [CopyActivation(id, 3, reason: .promotion(expected: nil))]
        )
        if case .ready? = outcomes.first {} else { Issue.record("\(outcomes)") }
        world.settle()
    }

    /// Confirms the map: the inherited prepares have to be committed.
    private func confirm() {
        let confirmed = DurableTests.map([1], copies: 1, index: 4, fence: 3)
        world.service.applyMap(confirmed, as: NodeNumber(1))
        world.settle()
    }

    /// Other keys of the same vBucket.
    private func neighbours(of key: String, _ count: Int) -> [String] {
        let id = VBucketID(ofKey: Array(key.utf8), count: 64)
        let keys = (0..<100_000).lazy.map { "b\($0)" }
        return Array(
            keys.filter { VBucketID(ofKey: Array($0.utf8), count: 64) == id }.prefix(count)
        )
    }

    @Test func commitWaitingForDiskAnswersClientsAtTheirTimeout() throws {
        try inherit("a", replacing: "old", by: "new")
        world.lanes.hold("reader")
        let reads = world.lanes.pending("reader")
        confirm()
        #expect(world.lanes.pending("reader") == reads + 1)
        let neighbour = try #require(neighbours(of: "a", 1).first)
        let writer = client()
        writer.send(set(neighbour, "1", milliseconds: 50))
        writer.settle()
        #expect(writer.replies().isEmpty)
        world.pass(milliseconds: 60)
        writer.settle()
        #expect(writer.replies().map(\.status) == [0xa3])
        #expect(client().ask(Ask.get("a")).map(\.status) == [0xa4])
        world.lanes.release("reader")
        world.pass(milliseconds: 10)
        #expect(client().ask(Ask.get("a")).map(\.text) == ["new"])
        #expect(client().ask(set(neighbour, "2")).map(\.status) == [0])
    }

    @Test func failedDiskReadIsNotRepeatedByEveryWrite() throws {
        try inherit("a", replacing: "old", by: "new")
        let lane = VBucketID(ofKey: Array("a".utf8), count: 64).number % 4
        let file = world.directory + "/buckets/guests/generation-1/lane-0\(lane).sqlite"
        try FileManager.default.moveItem(atPath: file, toPath: file + ".away")
        let failures = { [world] in
            world.trace.lines(atLeast: .error).count { $0.contains("fetcher") }
        }
        confirm()
        #expect(failures() == 1)
        let keys = neighbours(of: "a", 20)
        #expect(keys.count == 20)
        for key in keys {
            let writer = client()
            writer.send(set(key, "1", milliseconds: 20))
            world.pass(milliseconds: 30)
            writer.settle()
            #expect(writer.replies().map(\.status) == [0xa3])
        }
        // 600 ms, since the disk is retried once a second.
        #expect(failures() == 1)
        try FileManager.default.moveItem(atPath: file + ".away", toPath: file)
        world.pass(milliseconds: 1_000)
        #expect(client().ask(Ask.get("a")).map(\.text) == ["new"])
        #expect(failures() == 1)
    }
}
