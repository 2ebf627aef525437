import DataService
import Engine
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

    private func answers(_ flags: UInt32, _ uuid: VBucketUUID) -> [Reply] {
        let client = base.world.client(of: "guests")
        let open = frame(0x50, key: Array("c".utf8), extras: big(UInt32(0)) + big(UInt32(1)))
        #expect(client.ask(open).map(\.status) == [0])
        let two = big(UInt64(2))
        let extras = big(flags) + big(UInt32(0)) + two + big(UInt64.max) + big(uuid.value)
        client.send(frame(0x53, extras: extras + two + two))
        client.settle()
        return client.messages()
    }

    @Test func streamRollsBackUnlessItIgnoresPurges() throws {
        let uuid = try purged()
        let refused = answers(0, uuid)
        #expect(refused.map(\.status) == [0x23])
        #expect(refused.first?.value == big(UInt64(0)))
        let sent = answers(0x80, uuid)
        #expect(sent.first.map { !$0.isRequest && $0.status == 0 } == true)
        let keys = sent.filter { $0.isRequest && $0.opcode == 0x57 }
            .map { String(decoding: $0.key, as: UTF8.self) }
        #expect(keys == ["key2", "key3", "last"])
        #expect(!sent.contains { $0.isRequest && $0.opcode == 0x55 })
    }
}
