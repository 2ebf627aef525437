import Bytes
import DataService
import Engine
import Seams
import TestWorld
import Testing
import Vocabulary

/// Writes that wait for the attributes of an ejected value, and changes of the document meanwhile.
@Suite struct AttributeRaceTests {
    private static let pairs = [("_sync", #"{"rev":"1-a"}"#), ("user", "1")]
    private static let body = String(repeating: "1", count: 200)
    private static let other = [("_sync", #"{"rev":"2-b"}"#)]

    private let world = TestWorld()

    /// Stores a document with attributes whose value is on disk only, and holds the reader lanes.
    private func eject(expiry: UInt32 = 0) throws -> OpenBucket {
        try world.service.open(TestWorld.settings("guests", .persistent))
        let value = TestWorld.stored(Self.pairs, body: Self.body)
        try world.put("key", value, isDeleted: false, expiry: expiry)
        world.pass(milliseconds: 500)
        let isEjected = world.eject("key", from: "guests")
        try #require(isEjected)
        world.lanes.hold("reader")
        return try #require(world.service.bucket(named: "guests"))
    }

    /// Lets the reader lanes read, and returns the statuses of a client's answers.
    private func finish(_ client: Client) -> [UInt16] {
        world.lanes.release("reader")
        client.settle()
        return client.replies().map(\.status)
    }

    private func document(_ pairs: [(key: String, value: String)], _ body: String)
        -> TestWorld.Found
    {
        let value = pairs.isEmpty ? Array(body.utf8) : TestWorld.stored(pairs, body: body)
        return .init(isDeleted: false, datatype: pairs.isEmpty ? [] : .xattr, value: value)
    }

    private func expectExactAccount(_ bucket: OpenBucket) {
        #expect(bucket.engine.account.bytes == TestWorld.recount(bucket.engine))
        #expect(world.trace.lines(atLeast: .error) == [])
    }

    @Test func twoWaitingSetsKeepAttributes() throws {
        let bucket = try eject()
        let clients = (0..<2).map { _ in world.client(of: "guests") }
        for client in clients {
            client.send(Ask.set("key", "newer"))
            client.settle()
            #expect(client.replies().isEmpty)
        }
        for client in clients { #expect(finish(client) == [0]) }
        #expect(try world.find("key") == document(Self.pairs, "newer"))
        #expect(bucket.totals[.items] == 1 && bucket.totals[.nonResidentItems] == 0)
        expectExactAccount(bucket)
    }

    @Test func documentDeletedWhileSetWaitsBecomesNewDocument() throws {
        let bucket = try eject()
        let client = world.client(of: "guests")
        client.send(Ask.set("key", "newer"))
        try world.put("key", TestWorld.stored(Self.other))
        #expect(finish(client) == [0])
        #expect(try world.find("key") == document([], "newer"))
        expectExactAccount(bucket)
    }

    @Test func documentReplacedWhileSetWaitsKeepsNewerAttributes() throws {
        let bucket = try eject()
        let client = world.client(of: "guests")
        client.send(Ask.set("key", "newer"))
        try world.put("key", TestWorld.stored(Self.other, body: "between"), isDeleted: false)
        #expect(finish(client) == [0])
        #expect(try world.find("key") == document(Self.other, "newer"))
        expectExactAccount(bucket)
    }

    @Test func documentReplacedWhileDeleteWaitsLeavesNewerSystemAttributes() throws {
        let bucket = try eject()
        let client = world.client(of: "guests")
        client.send(Ask.on(0x04, "key"))
        let newer = Self.other + [("user", "2")]
        try world.put("key", TestWorld.stored(newer, body: "between"), isDeleted: false)
        #expect(finish(client) == [0])
        let value = TestWorld.stored(Self.other)
        let tombstone = TestWorld.Found(isDeleted: true, datatype: .xattr, value: value)
        #expect(try world.find("key") == tombstone)
        expectExactAccount(bucket)
    }

    @Test func documentExpiredWhileSetWaitsBecomesNewDocument() throws {
        let bucket = try eject(expiry: world.turn.seconds + 60)
        let client = world.client(of: "guests")
        client.send(Ask.set("key", "newer"))
        world.jump(milliseconds: 61_000)
        #expect(finish(client) == [0])
        #expect(try world.find("key") == document([], "newer"))
        expectExactAccount(bucket)
    }

    @Test func valueEjectedBeforeSetResumesIsFetchedAgain() throws {
        let bucket = try eject()
        let client = world.client(of: "guests")
        client.send(Ask.set("key", "newer"))
        world.lanes.release("reader")
        world.settle()
        let isEjected = world.eject("key", from: "guests")
        #expect(isEjected)
        #expect(finish(client) == [0])
        #expect(try world.find("key") == document(Self.pairs, "newer"))
        #expect(bucket.counters.total(.backgroundFetches) == 2)
        expectExactAccount(bucket)
    }

    @Test func setOverEjectedValueReadsDiskOnlyForAttributes() throws {
        let bucket = try eject()
        let client = world.client(of: "guests")
        #expect(client.ask(Ask.set("plain", Self.body)).map(\.status) == [0])
        world.pass(milliseconds: 500)
        let isEjected = world.eject("plain", from: "guests")
        #expect(isEjected)
        #expect(client.ask(Ask.set("plain", "newer")).map(\.status) == [0])
        #expect(bucket.counters.total(.backgroundFetches) == 0)
        client.send(Ask.set("key", "newer"))
        #expect(finish(client) == [0])
        #expect(bucket.counters.total(.backgroundFetches) == 1)
    }
}
