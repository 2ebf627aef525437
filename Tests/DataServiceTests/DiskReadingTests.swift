import Bytes
import DataService
import Engine
import Persistence
import Seams
import TestWorld
import Testing
import Vocabulary

/// Reads of a vBucket from disk while it is emptied: seqnos restart, so they name other versions.
@Suite struct DiskReadingTests {
    private static let pairs = [("_sync", "1")]

    private let world = TestWorld()

    private static func body(_ digit: String) -> String { String(repeating: digit, count: 200) }

    /// Stores the first version of the vBucket, which is then persisted, and ejects its value.
    private static func putFirst(_ digit: String, in world: TestWorld) throws {
        let value = TestWorld.stored(pairs, body: body(digit))
        try world.put("key", value, isDeleted: false)
        world.pass(milliseconds: 500)
        let isEjected = world.eject("key", from: "guests")
        try #require(isEjected)
    }

    /// Erases the vBucket from disk and from memory, as the removal of a copy does.
    private static func empty(_ world: TestWorld) throws {
        let bucket = try #require(world.service.bucket(named: "guests"))
        let id = VBucketID(ofKey: Array("key".utf8), count: 64)
        try #require(bucket.disk).file(of: id).drop(id)
        try world.vBucket(of: "key").withCore { $0.reset(to: .active, uuid: VBucketUUID(9)) }
    }

    @Test func readingOfEmptiedVBucketFillsNothing() throws {
        try world.service.open(TestWorld.settings("guests", .persistent))
        let vBucket = try world.vBucket(of: "key")
        let reading = DiskReading(of: vBucket)
        #expect(reading.fill { $0.highSeqno } == .zero)
        try Self.empty(world)
        #expect(reading.fill { $0.highSeqno } == nil)
        #expect(DiskReading(of: vBucket).fill { $0.highSeqno } == .zero)
    }

    /// The fetcher has read the first version of the old history when the vBucket gets the first
    /// version of a new one, with the same seqno, key and length.
    @Test func valueOfEarlierHistoryIsNotInstalled() throws {
        try world.service.open(TestWorld.settings("guests", .persistent))
        try Self.putFirst("1", in: world)
        let client = world.client(of: "guests")
        world.lanes.hold("reader")
        client.send(Ask.get("key"))
        client.settle()
        #expect(client.replies().isEmpty)
        let shared = Guarded(world)
        world.time.interruptNextReading {
            shared.withLock { world in
                do {
                    try Self.empty(world)
                    try Self.putFirst("2", in: world)
                } catch {
                    Issue.record(error)
                }
            }
        }
        world.lanes.release("reader")
        client.settle()
        let replies = client.replies()
        #expect(replies.map(\.status) == [0])
        #expect(replies.map(\.text) == [Self.body("2")])
        let bucket = try #require(world.service.bucket(named: "guests"))
        #expect(bucket.counters.total(.backgroundFetches) == 2)
        #expect(bucket.engine.account.bytes == TestWorld.recount(bucket.engine))
        #expect(world.trace.lines(atLeast: .error) == [])
    }
}
