import Bytes
import DataService
import Engine
import Persistence
import Seams
import TestWorld
import Testing
import Vocabulary

/// Documents of which memory keeps only stubs expire without requests.
@Suite struct StubExpiryTests {
    let world = TestWorld()
    let settings: BucketSettings

    init() throws {
        var settings = TestWorld.settings("guests", .persistent)
        settings.evictionPolicy = .fullEviction
        self.settings = settings
        try world.service.open(settings)
        world.service.startHousekeeping()
    }

    private func bucket() throws -> OpenBucket {
        try #require(world.service.bucket(named: "guests"))
    }

    /// Stores documents with a lifetime in seconds and ejects all of them.
    private func storeEjected(_ name: String, _ count: Int, seconds: UInt32) throws {
        let client = world.client(of: "guests")
        let sets = (0..<count).flatMap { Ask.set("\(name)\($0)", "value", expiry: seconds) }
        #expect(client.ask(sets).allSatisfy { $0.status == 0 })
        world.pass(milliseconds: 1_000)
        world.ejectAll(from: "guests")
    }

    private func stubs(_ bucket: OpenBucket) -> Int {
        bucket.engine.all.reduce(0) { sum, vBucket in
            sum + vBucket.withCore { $0.table.stubCount }
        }
    }

    @Test func eachWalkExpiresDueStubs() throws {
        let bucket = try bucket()
        try storeEjected("short", 200, seconds: 60)
        try storeEjected("longer", 200, seconds: 900)
        try storeEjected("ever", 200, seconds: 0)
        #expect(stubs(bucket) == 600)
        world.pass(milliseconds: 590_000)
        #expect(bucket.totals[.tombstones] == 0)
        // Ten minutes, and the time of the flusher.
        world.pass(milliseconds: 20_000)
        #expect(bucket.totals[.tombstones] == 200)
        #expect(bucket.totals[.items] == 400)
        #expect(bucket.totals[.diskQueue] == 0)
        #expect(bucket.counters.total(.expirations) == 200)
        #expect(stubs(bucket) == 400)
        #expect(bucket.engine.account.bytes == TestWorld.recount(bucket.engine))
        world.pass(milliseconds: 600_000)
        #expect(bucket.totals[.tombstones] == 400)
        world.pass(milliseconds: 600_000)
        #expect(bucket.totals[.tombstones] == 400)
        #expect(bucket.totals[.items] == 200)
        #expect(stubs(bucket) == 200)
        let client = world.client(of: "guests")
        let replies = client.ask(Ask.get("short7") + Ask.get("longer7") + Ask.get("ever7"))
        #expect(replies.map(\.status) == [1, 1, 0])
        #expect(bucket.counters.total(.expirations) == 400)
        #expect(world.trace.lines(atLeast: .error) == [])
    }

    @Test func onlyActiveCopyExpiresStubs() throws {
        let bucket = try bucket()
        try storeEjected("key", 200, seconds: 60)
        let some = bucket.engine.all.first { vBucket in vBucket.withCore { $0.liveCount > 0 } }
        let replica = try #require(some)
        let mine: Int = replica.withCore { core in
            core.become(.replica)
            return core.liveCount
        }
        world.pass(milliseconds: 610_000)
        #expect(bucket.counters.total(.expirations) == UInt64(200 - mine))
        #expect(replica.withCore { [$0.liveCount, $0.tombstoneCount] } == [mine, 0])
        // The copy becomes active, and the next walk finds them.
        replica.withCore { $0.promote(VBucketUUID(9)) }
        world.pass(milliseconds: 600_000)
        #expect(bucket.counters.total(.expirations) == 200)
        #expect(replica.withCore { [$0.liveCount, $0.tombstoneCount] } == [0, mine])
    }

    @Test func damagedBlockDelaysOnlyItsOwnExpirations() throws {
        let directory = TestWorld.freshDirectory()
        defer { TestWorld.remove(directory) }
        let world = TestWorld(directory: directory)
        try world.service.open(settings)
        world.service.startHousekeeping()
        let client = world.client(of: "guests")
        let fitting = (0..<100_000).lazy.map { "key\($0)" }
            .filter { VBucketID(ofKey: Array($0.utf8), count: 64).number == 1 }
        let keys = Array(fitting.prefix(20))
        // A block for each half.
        for half in [keys.prefix(10), keys.suffix(10)] {
            let sets = Array(half).flatMap { Ask.set($0, "value", expiry: 60) }
            #expect(client.ask(sets).allSatisfy { $0.status == 0 })
            world.pass(milliseconds: 1_000)
        }
        world.ejectAll(from: "guests")
        let bucket = try #require(world.service.bucket(named: "guests"))
        let path = directory + "/buckets/guests/generation-1/lane-01.sqlite"
        let file = try SQLiteConnection(path: path, mode: .write, vfs: nil)
        try file.execute("CREATE TEMP TABLE kept AS SELECT bytes FROM meta WHERE id = 1")
        try file.execute("UPDATE meta SET bytes = zeroblob(length(bytes)) WHERE id = 1")
        world.pass(milliseconds: 610_000)
        #expect(bucket.totals[.tombstones] == 10)
        #expect(world.trace.lines(atLeast: .error).contains { $0.contains("checked again later") })
        try file.execute("UPDATE meta SET bytes = (SELECT bytes FROM kept) WHERE id = 1")
        world.pass(milliseconds: 600_000)
        #expect(bucket.totals[.tombstones] == 20)
        #expect(world.stop())
    }

    /// A tombstone uses more memory than a stub.
    @Test func stubsDoNotExpireWhileMemoryIsShort() throws {
        let bucket = try bucket()
        try storeEjected("key", 200, seconds: 60)
        world.pass(milliseconds: 590_000)
        var small = settings
        small.quota = bucket.engine.account.bytes
        bucket.change(small)
        #expect(bucket.engine.account.isAboveHighWatermark)
        world.pass(milliseconds: 20_000)
        #expect(bucket.engine.account.isAboveHighWatermark)
        #expect(bucket.totals[.tombstones] == 0)
        bucket.change(settings)
        world.pass(milliseconds: 3_000)
        #expect(bucket.totals[.tombstones] == 200)
    }

    @Test(arguments: [true, false])
    func stubWalkEndsWithItsBucket(isFlush: Bool) throws {
        let old = try bucket()
        try storeEjected("key", 200, seconds: 60)
        world.lanes.hold("aux-io")
        world.pass(milliseconds: 610_000)
        #expect(world.lanes.isBusy("aux-io"))
        if isFlush {
            try world.service.flush("guests")
        } else {
            try world.service.delete("guests")
            try world.service.open(settings)
        }
        world.lanes.release("aux-io")
        world.pass(milliseconds: 1_000)
        #expect(!world.lanes.isBusy("aux-io"))
        #expect(old.counters.total(.expirations) == 0)
        // The bucket's successor has its own walks.
        try storeEjected("key", 100, seconds: 60)
        world.pass(milliseconds: 660_000)
        #expect(try bucket().totals[.tombstones] == 100)
        #expect(world.trace.lines(atLeast: .error) == [])
    }
}
