import Bytes
import DataService
import Engine
import Seams
import TestWorld
import Testing
import Vocabulary

/// Tombstones keep the system attributes of their documents: on disk, across a restart, and if the
/// document expires while its attributes are on disk only.
@Suite struct TombstoneValueTests {
    private static let system = TestWorld.stored([("_sync", #"{"rev":"1-a"}"#)])
    private static let whole = TestWorld.stored(
        [("_sync", #"{"rev":"1-a"}"#), ("user", "1")],
        body: #"{"a":"# + String(repeating: "1", count: 200) + "}"
    )

    private static func settings(_ policy: EvictionPolicy) -> BucketSettings {
        var settings = TestWorld.settings("guests", .persistent)
        settings.evictionPolicy = policy
        return settings
    }

    private func bucket(_ world: TestWorld) throws -> OpenBucket {
        try #require(world.service.bucket(named: "guests"))
    }

    private func getMeta(_ key: String, _ client: Client) -> (status: UInt16, isDeleted: Bool)? {
        client.ask(Ask.on(0xa0, key)).first.map {
            ($0.status, $0.extras.prefix(4) == [0, 0, 0, 1])
        }
    }

    @Test(arguments: [EvictionPolicy.valueOnly, .fullEviction])
    func tombstonesValueSurvivesRestart(policy: EvictionPolicy) throws {
        let directory = TestWorld.freshDirectory()
        defer { TestWorld.remove(directory) }
        let world = TestWorld(directory: directory)
        try world.service.open(Self.settings(policy))
        for number in 0..<20 { try world.put("key\(number)", number % 2 == 0 ? Self.system : []) }
        #expect(world.stop())
        let next = TestWorld(directory: directory)
        try next.service.open(Self.settings(policy))
        next.settle()
        let totals = try bucket(next).totals
        #expect(totals[.tombstones] == 20 && totals[.items] == 0 && totals[.nonResidentItems] == 0)
        for number in 0..<20 {
            let expected = TestWorld.Found(
                isDeleted: true,
                datatype: number % 2 == 0 ? .xattr : [],
                value: number % 2 == 0 ? Self.system : []
            )
            #expect(try next.find("key\(number)") == expected, "values are loaded after the keys")
        }
        #expect(try bucket(next).engine.account.bytes == TestWorld.recount(bucket(next).engine))
        #expect(next.stop())
    }

    @Test func stubOfTombstoneIsReadFromDiskWithItsValue() throws {
        let world = TestWorld()
        try world.service.open(Self.settings(.valueOnly))
        let client = world.client(of: "guests")
        try world.put("key", Self.system)
        try world.put("plain", [])
        world.pass(milliseconds: 500)
        world.ejectEverything()
        #expect(try world.find("key") == nil && world.find("plain") == nil)
        #expect(try #require(getMeta("key", client)) == (0, true))
        #expect(try #require(getMeta("plain", client)) == (0, true))
        #expect(
            try world.find("key") == .init(isDeleted: true, datatype: .xattr, value: Self.system)
        )
        #expect(try world.find("plain") == .init(isDeleted: true, datatype: [], value: []))
        // A document that is created again is a new one.
        #expect(client.ask(Ask.set("key", "value")).map(\.status) == [0])
        #expect(client.ask(Ask.get("key")).map(\.text) == ["value"])
        #expect(world.trace.lines(atLeast: .error) == [])
    }

    /// A write always needs the metadata of a stub of its key: the revision, and whether the
    /// document exists.
    ///
    /// So a SET over a stub has read the version once since before attributes, with its value. The
    /// bit must not add a read, and a key without a stub reads nothing.
    @Test(arguments: [false, true])
    func setOverStubReadsDiskOnce(hasAttributes: Bool) throws {
        let world = TestWorld()
        try world.service.open(Self.settings(.fullEviction))
        let client = world.client(of: "guests")
        if hasAttributes {
            try world.put("key", Self.whole, isDeleted: false)
        } else {
            #expect(client.ask(Ask.set("key", "value")).map(\.status) == [0])
        }
        world.pass(milliseconds: 500)
        world.ejectEverything()
        let vBucket = try world.vBucket(of: "key")
        let engine = try bucket(world).engine
        let hash = Array("key".utf8).withUnsafeBytes { engine.hash(ByteView($0)) }
        let hasBit = vBucket.withCore { core in
            core.table.stubCount == 1 ? core.mayHaveStubWithAttributes(hash) : nil
        }
        #expect(hasBit == hasAttributes)
        let counters = try bucket(world).counters
        #expect(counters.total(.backgroundFetches) == 0)
        #expect(client.ask(Ask.set("key", "newer")).map(\.status) == [0])
        #expect(counters.total(.backgroundFetches) == 1)
        #expect(client.ask(Ask.set("other", "value")).map(\.status) == [0])
        #expect(counters.total(.backgroundFetches) == 1)
    }

    @Test func expiredStubsKeepSystemAttributesInTheirTombstones() throws {
        let world = TestWorld()
        try world.service.open(Self.settings(.fullEviction))
        world.service.startHousekeeping()
        let expiry = world.turn.seconds + 60
        for number in 0..<50 {
            try world.put("key\(number)", Self.whole, isDeleted: false, expiry: expiry)
        }
        let client = world.client(of: "guests")
        let plain = (0..<50).flatMap { Ask.set("plain\($0)", "value", expiry: 60) }
        #expect(client.ask(plain).allSatisfy { $0.status == 0 })
        try expectTombstones(world) { world.ejectEverything() }
    }

    /// Under `valueOnly` the keys are in memory, and the attributes are not.
    @Test func expiredDocumentsWithEjectedValuesKeepSystemAttributesInTheirTombstones() throws {
        let world = TestWorld()
        try world.service.open(Self.settings(.valueOnly))
        world.service.startHousekeeping()
        let expiry = world.turn.seconds + 60
        for number in 0..<50 {
            try world.put("key\(number)", Self.whole, isDeleted: false, expiry: expiry)
        }
        let client = world.client(of: "guests")
        let plain = (0..<50).flatMap { Ask.set("plain\($0)", "value", expiry: 60) }
        #expect(client.ask(plain).allSatisfy { $0.status == 0 })
        try expectTombstones(world) {
            for number in 0..<50 { #expect(world.eject("key\(number)", from: "guests")) }
        }
    }

    private func expectTombstones(
        _ world: TestWorld,
        afterEjecting eject: () -> Void
    ) throws {
        world.pass(milliseconds: 1_000)
        eject()
        world.pass(milliseconds: 61_000)
        world.pass(milliseconds: 550_000)
        let bucket = try bucket(world)
        #expect(bucket.totals[.tombstones] == 100 && bucket.totals[.items] == 0)
        #expect(bucket.totals[.diskQueue] == 0 && bucket.totals[.nonResidentItems] == 0)
        #expect(bucket.counters.total(.expirations) == 100)
        let kept = TestWorld.Found(isDeleted: true, datatype: .xattr, value: Self.system)
        let empty = TestWorld.Found(isDeleted: true, datatype: [], value: [])
        for number in 0..<50 {
            #expect(try world.find("key\(number)") == kept)
            #expect(try world.find("plain\(number)") == empty)
        }
        #expect(bucket.engine.account.bytes == TestWorld.recount(bucket.engine))
        #expect(world.trace.lines(atLeast: .error) == [])
    }

    /// GET needs no tombstone; GET_META shows it, so it waits for the attributes.
    @Test func metadataOfExpiredDocumentIsItsTombstones() throws {
        let world = TestWorld()
        try world.service.open(Self.settings(.valueOnly))
        let client = world.client(of: "guests")
        let expiry = world.turn.seconds + 60
        try world.put("key", Self.whole, isDeleted: false, expiry: expiry)
        world.pass(milliseconds: 500)
        #expect(world.eject("key", from: "guests"))
        world.pass(milliseconds: 61_000)
        #expect(client.ask(Ask.get("key")).map(\.status) == [1])
        #expect(try world.vBucket(of: "key").withCore { $0.highSeqno } == Seqno(1))
        #expect(try #require(getMeta("key", client)) == (0, true))
        let kept = TestWorld.Found(isDeleted: true, datatype: .xattr, value: Self.system)
        #expect(try world.find("key") == kept)
        #expect(try bucket(world).counters.total(.backgroundFetches) == 1)
    }

    @Test func purgedTombstonesWithValuesLeaveDiskAndMemory() throws {
        let world = TestWorld()
        try world.service.open(Self.settings(.valueOnly))
        world.service.startHousekeeping()
        for number in 0..<40 { try world.put("key\(number)", Self.system) }
        world.pass(milliseconds: 1_000)
        for number in 0..<20 { _ = world.eject("key\(number)", from: "guests") }
        world.jump(milliseconds: 4 * 24 * 3_600_000)
        world.pass(milliseconds: 3_610_000)
        let bucket = try bucket(world)
        #expect(bucket.totals[.tombstones] == 0)
        let left = bucket.engine.all.reduce(0) { sum, vBucket in
            sum + vBucket.withCore { $0.ejectedTombstoneCount + $0.table.count }
        }
        #expect(left == 0)
        #expect(bucket.engine.account.bytes == TestWorld.recount(bucket.engine))
        #expect(world.trace.lines(atLeast: .error) == [])
    }
}
