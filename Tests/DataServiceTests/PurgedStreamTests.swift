import DataService
import Engine
import Seams
import TestWorld
import Testing
import Vocabulary

/// Streams from a position behind which tombstones were purged.
@Suite struct PurgedStreamTests {
    private let base = FeedTests()

    /// Four documents, a purged tombstone with seqno 5, and a document with seqno 6.
    private func purged() throws -> VBucketUUID {
        let bucket = try base.open(.ephemeral)
        for number in 0..<4 { _ = base.write("key\(number)", "value", in: bucket) }
        _ = base.write("key0", "", in: bucket, deletes: true)
        _ = base.write("last", "value", in: bucket)
        let vBucket = try #require(bucket.engine[0])
        return vBucket.withCore { core in
            _ = core.dropCursors()
            _ = core.forgetTombstones(from: 0, groupsMax: .max / 2, deletedBefore: .max)
            return core.uuid
        }
    }

    /// The same changes on disk only; in memory are neither values nor tombstones.
    ///
    /// - Returns: The world that has them: another one after a restart.
    private func purgedOnDisk(
        _ policy: EvictionPolicy,
        isRestarted: Bool
    ) throws -> (world: TestWorld, uuid: VBucketUUID) {
        var world = base.world
        var settings = TestWorld.settings("guests", .persistent, vBuckets: 1)
        settings.evictionPolicy = policy
        try world.service.open(settings)
        let bucket = try #require(world.service.bucket(named: "guests"))
        for number in 0..<4 { _ = base.write("key\(number)", "value", in: bucket) }
        _ = base.write("key0", "", in: bucket, deletes: true)
        _ = base.write("last", "value", in: bucket)
        world.pass(milliseconds: 3_000)
        #expect(world.service.purgeTombstones(of: "guests"))
        world.settle()
        let uuid = try #require(bucket.engine[0]).withCore { $0.uuid }
        if isRestarted {
            #expect(world.stop())
            world = TestWorld(directory: base.world.directory)
            try world.service.open(settings)
            world.pass(milliseconds: 1_000)
        }
        for _ in 0..<3 { world.ejectAll(from: "guests") }
        let vBucket = try #require(world.service.bucket(named: "guests")?.engine[0])
        let numbers = vBucket.withCore { core in
            [core.tombstoneCount, core.ejectedCount, Int(core.purgeSeqno.value)]
        }
        #expect(numbers[0] == 0 && numbers[1] > 0 && numbers[2] == 5)
        return (world, uuid)
    }

    private func answers(
        _ flags: UInt32,
        _ uuid: VBucketUUID,
        in world: TestWorld
    ) -> [Reply] {
        let client = world.client(of: "guests")
        let open = frame(0x50, key: Array("c".utf8), extras: big(UInt32(0)) + big(UInt32(1)))
        #expect(client.ask(open).map(\.status) == [0])
        let two = big(UInt64(2))
        let extras = big(flags) + big(UInt32(0)) + two + big(UInt64.max) + big(uuid.value)
        client.send(frame(0x53, extras: extras + two + two))
        for _ in 0..<10 {
            client.settle()
            world.pass(milliseconds: 100)
        }
        return client.messages()
    }

    @Test func streamRollsBackUnlessItIgnoresPurges() throws {
        let uuid = try purged()
        check(answers(0, uuid, in: base.world), answers(0x80, uuid, in: base.world))
    }

    @Test(arguments: [EvictionPolicy.valueOnly, .fullEviction], [false, true])
    func streamFromDiskRollsBackUnlessItIgnoresPurges(
        _ policy: EvictionPolicy,
        _ isRestarted: Bool
    ) throws {
        let (world, uuid) = try purgedOnDisk(policy, isRestarted: isRestarted)
        let refused = answers(0, uuid, in: world)
        let sent = answers(0x80, uuid, in: world)
        check(refused, sent)
        let marker = try #require(sent.first { $0.isRequest && $0.opcode == 0x56 })
        // The last byte of the marker's flags; 2 is the flag of a snapshot from disk.
        #expect(marker.extras.count == 20 && marker.extras[19] & 2 != 0)
        #expect(world.trace.lines(atLeast: .error) == [])
    }

    /// Checks the answers to a request from seqno 2 without and with the flag 0x80.
    private func check(_ refused: [Reply], _ sent: [Reply]) {
        #expect(refused.map(\.status) == [0x23])
        #expect(refused.first?.value == big(UInt64(0)))
        #expect(sent.first.map { !$0.isRequest && $0.status == 0 } == true)
        let keys = sent.filter { $0.isRequest && $0.opcode == 0x57 }
            .map { String(decoding: $0.key, as: UTF8.self) }
        #expect(keys == ["key2", "key3", "last"])
        #expect(!sent.contains { $0.isRequest && $0.opcode == 0x55 })
    }
}
