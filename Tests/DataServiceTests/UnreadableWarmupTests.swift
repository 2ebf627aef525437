import Bytes
import DataService
import Engine
import Foundation
import Persistence
import Seams
import TestWorld
import Testing
import Vocabulary

/// Warmup from files that cannot be read, in part or for a while.
@Suite final class UnreadableWarmupTests {
    let directory = TestWorld.freshDirectory()
    /// vBuckets of lane file 1, each with a block of its own.
    private let vBuckets: [UInt16] = [1, 5, 9]

    init() throws {
        let world = TestWorld(directory: directory)
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        let requests = (vBuckets + [2]).flatMap { keys(in: $0) }.flatMap { Ask.set($0, "value") }
        try #require(client.ask(requests).allSatisfy { $0.status == 0 })
        world.pass(milliseconds: 500)
        #expect(world.stop())
    }

    deinit { TestWorld.remove(directory) }

    private var path: String { directory + "/buckets/guests/generation-1/lane-01.sqlite" }

    /// Ten keys fill a block of their own.
    private func keys(in vBucket: UInt16, count: Int = 10) -> [String] {
        let fitting = (0..<500_000).lazy.map { "key\($0)" }
            .filter { VBucketID(ofKey: Array($0.utf8), count: 64).number == vBucket }
        return Array(fitting.prefix(count))
    }

    private func statuses(_ client: Client) -> [UInt16] {
        (vBuckets + [2]).flatMap { client.ask(Ask.get(keys(in: $0)[7])).map(\.status) }
    }

    /// Damages a block until `mend`.
    private func damage() throws -> SQLiteConnection {
        let file = try SQLiteConnection(path: path, mode: .write, vfs: nil)
        try file.execute("CREATE TEMP TABLE kept AS SELECT id, bytes FROM meta WHERE id = 2")
        #expect(try file.integer("SELECT count(*) FROM kept") == 1)
        try file.execute("UPDATE meta SET bytes = zeroblob(length(bytes)) WHERE id = 2")
        return file
    }

    private func mend(_ file: SQLiteConnection) throws {
        try file.execute("UPDATE meta SET bytes = (SELECT bytes FROM kept) WHERE id = 2")
    }

    private func errorCount(_ world: TestWorld) -> Int {
        world.trace.lines(atLeast: .error).count { $0.contains("cannot be read") }
    }

    private func expectAllIsWell(_ world: TestWorld) throws {
        let bucket = try #require(world.service.bucket(named: "guests"))
        #expect(bucket.warmupProgress == nil)
        #expect(bucket.failure == nil)
        #expect(world.service.alerts.current.isEmpty)
    }

    @Test func damagedBlockAffectsOnlyItsVBucketsAndIsRetried() throws {
        let world = try TestWorld.reopened(directory)
        let file = try damage()
        world.lanes.release("reader")
        let client = world.client(of: "guests")
        #expect(statuses(client) == [0, 0x86, 0, 0])
        let bucket = try #require(world.service.bucket(named: "guests"))
        #expect(bucket.warmupProgress == nil)
        #expect(bucket.failure?.contains("block 2") == true)
        let alerts = world.service.alerts.current.map(\.message)
        #expect(alerts.count == 1 && alerts[0].contains("(1 vBucket)"), "\(alerts)")
        // The other vBuckets are served as usual.
        #expect(client.ask(Ask.set(keys(in: 1)[0], "newer")).map(\.status) == [0])
        #expect(client.ask(Ask.set(keys(in: 5)[0], "newer")).map(\.status) == [0x86])
        // At once, and after 1, 2 and 4 seconds more.
        world.pass(milliseconds: 10_000)
        #expect(errorCount(world) == 4)
        try mend(file)
        world.pass(milliseconds: 10_000)
        #expect(statuses(client) == [0, 0, 0, 0])
        #expect(client.ask(Ask.set(keys(in: 5)[0], "newer")).map(\.status) == [0])
        try expectAllIsWell(world)
        #expect(bucket.totals[.items] == 40)
        #expect(bucket.totals[.nonResidentItems] == 0, "the values are loaded too")
        #expect(bucket.engine.account.bytes == TestWorld.recount(bucket.engine))
        world.pass(milliseconds: 1_000)
        #expect(world.stop())
    }

    /// NOT_MY_VBUCKET, as clients repeat such a request after a pause.
    @Test func streamOfUnreadableVBucketIsRefusedAtOnce() throws {
        let world = try TestWorld.reopened(directory)
        let file = try damage()
        let client = world.client(of: "guests")
        let open = frame(0x50, key: Array("c".utf8), extras: big(UInt32(0)) + big(UInt32(1)))
        #expect(client.ask(open).map(\.status) == [0])
        let extras =
            [UInt8](repeating: 0, count: 16) + big(UInt64.max) + [UInt8](repeating: 0, count: 24)
        let request = frame(0x53, extras: extras, vBucket: 5)
        // The first request waits for the read that fails, the second comes after it.
        client.send(request)
        #expect(client.isPaused)
        world.lanes.release("reader")
        client.settle()
        #expect(client.ask(request).map(\.status) == [7, 7])
        try mend(file)
        world.pass(milliseconds: 10_000)
        client.send(request)
        client.settle()
        #expect(client.messages().filter { !$0.isRequest }.map(\.status) == [0])
    }

    /// The block may have contained the newest version of any document: older versions are not
    /// served as if they were the newest.
    @Test func blockOfUnknownContentAffectsAllVBucketsItMayContain() throws {
        let file = try damage()
        try file.execute("CREATE TEMP TABLE outline AS SELECT id, runs FROM block WHERE id = 2")
        try file.execute("UPDATE block SET runs = zeroblob(length(runs)) WHERE id = 2")
        let world = try TestWorld.reopened(directory)
        world.lanes.release("reader")
        let client = world.client(of: "guests")
        #expect(statuses(client) == [0x86, 0x86, 0x86, 0])
        let bucket = try #require(world.service.bucket(named: "guests"))
        #expect(bucket.failure?.contains("block 2") == true)
        world.pass(milliseconds: 61_000)
        #expect(statuses(client) == [0x86, 0x86, 0x86, 0])
        #expect(world.service.alerts.current.count == 1)
        // The state is reported, so that another intact copy serves instead.
        let unread = world.service.reports("guests").filter(\.isUnreadable).map(\.vBucket.number)
        #expect(unread.sorted() == vBuckets)
        #expect(world.stop())
        try mend(file)
        try file.execute("UPDATE block SET runs = (SELECT runs FROM outline) WHERE id = 2")
        let healed = try TestWorld.reopened(directory)
        healed.lanes.release("reader")
        #expect(statuses(healed.client(of: "guests")) == [0, 0, 0, 0])
        #expect(healed.stop())
    }

    /// The hash table, which distinguishes live versions from dead ones, has no document of an
    /// unloaded vBucket, and records of the failed read may concern blocks that were rewritten
    /// since.
    @Test func compactionDropsNothingOfUnloadedVBuckets() throws {
        let keys = keys(in: 5, count: 6_000)
        #expect(keys.count == 6_000)
        let before = TestWorld(directory: directory)
        try before.service.open(TestWorld.settings("guests", .persistent))
        let writer = before.client(of: "guests")
        for part in [keys[...], keys.prefix(1_500)] {
            #expect(writer.ask(part.flatMap { Ask.set($0, "newer") }).allSatisfy { $0.status == 0 })
            before.pass(milliseconds: 300)
        }
        #expect(before.stop())

        let world = try TestWorld.reopened(directory)
        let file = try SQLiteConnection(path: path, mode: .write, vfs: nil)
        let last = "(SELECT max(id) FROM meta)"
        try file.execute("CREATE TEMP TABLE kept AS SELECT id, bytes FROM meta WHERE id = \(last)")
        try file.execute("UPDATE meta SET bytes = zeroblob(length(bytes)) WHERE id = \(last)")
        world.lanes.release("reader")
        let client = world.client(of: "guests")
        #expect(client.ask(Ask.get(keys[0])).map(\.status) == [0x86])
        let bucket = try #require(world.service.bucket(named: "guests"))
        let lane = try #require(bucket.disk?.file(of: VBucketID(5)))
        let documents = lane.compactionNeeded().documents
        #expect(documents > 7_500)
        // The other vBuckets are written, and compacted.
        #expect(client.ask(Ask.set("key of another", "value")).map(\.status) == [0])
        world.pass(milliseconds: 30_000)
        #expect(lane.compactionNeeded().documents >= documents)

        try file.execute(
            "UPDATE meta SET bytes = (SELECT bytes FROM kept) WHERE id = (SELECT id FROM kept)"
        )
        world.pass(milliseconds: 61_000)
        #expect(keys.suffix(3).flatMap { client.ask(Ask.get($0)).map(\.status) } == [0, 0, 0])
        #expect(bucket.totals[.items] >= 6_000)
        #expect(world.stop())
    }

    @Test func unreachableFileIsReadOnceReachable() throws {
        let world = try TestWorld.reopened(directory)
        let bucket = try #require(world.service.bucket(named: "guests"))
        // Open files stay open under any name.
        for _ in 0..<2 { bucket.disk?.file(of: VBucketID(1)).closeIdle() }
        try FileManager.default.moveItem(atPath: path, toPath: path + ".away")
        world.lanes.release("reader")
        let client = world.client(of: "guests")
        #expect(statuses(client) == [0x86, 0x86, 0x86, 0])
        #expect(bucket.warmupProgress == nil)
        try FileManager.default.moveItem(atPath: path + ".away", toPath: path)
        world.pass(milliseconds: 1_000)
        #expect(statuses(client) == [0, 0, 0, 0])
        try expectAllIsWell(world)
        // No commit failed: the lane file is open.
        #expect(client.ask(Ask.set(keys(in: 5)[0], "newer")).map(\.status) == [0])
        world.pass(milliseconds: 1_000)
        #expect(bucket.totals[.diskQueue] == 0)
    }

    @Test func flushedBucketStopsRetryingWarmup() throws {
        let world = try TestWorld.reopened(directory)
        let file = try damage()
        world.lanes.release("reader")
        world.settle()
        #expect(errorCount(world) == 1)
        try world.service.flush("guests")
        world.pass(milliseconds: 120_000)
        #expect(errorCount(world) == 1)
        #expect(world.lanes.pending("reader") == 0)
        #expect(statuses(world.client(of: "guests")) == [1, 1, 1, 1])
        try expectAllIsWell(world)
        withExtendedLifetime(file) {}
    }

    /// The map moved the vBuckets to another node: unreadable ones are dropped unread.
    @Test func droppedUnreadableCopyStopsRetryingWarmup() throws {
        let settings = TestWorld.settings("guests", .persistent)
        let map = BucketAssignment(
            name: "guests",
            uuid: settings.uuid,
            index: 1,
            vBuckets: (0..<64).map { _ in
                VBucketAssignment(fence: 1, stage: 1, chain: [NodeNumber(2)], copies: 1)
            }
        )
        let world = TestWorld(directory: directory)
        world.lanes.hold("reader")
        try world.service.open(settings, map, as: NodeNumber(1), isNew: false)
        let file = try damage()
        world.lanes.release("reader")
        world.pass(milliseconds: 120_000)
        #expect(world.lanes.pending("reader") == 0)
        let bucket = try #require(world.service.bucket(named: "guests"))
        for number in vBuckets {
            let isGone = bucket.engine[number]?.withCore { core in
                core.isLoaded && !core.ownership.isResetting && core.highSeqno == .zero
            }
            #expect(isGone == true, "\(number)")
        }
        try expectAllIsWell(world)
        withExtendedLifetime(file) {}
    }
}
