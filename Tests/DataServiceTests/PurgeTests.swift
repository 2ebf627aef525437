import Bytes
import DataService
import Engine
import Persistence
import Seams
import TestWorld
import Testing
import Vocabulary

/// Old tombstones are purged, and their documents stay deleted.
@Suite struct PurgeTests {
    private static let hour: UInt64 = 3_600_000
    private static let day = 24 * hour

    /// Passes time until housekeeping purges.
    private func runHousekeeping(_ world: TestWorld) {
        world.pass(milliseconds: PurgeTests.hour + 10_000)
    }

    private func totals(_ world: TestWorld) throws -> BucketStatistics {
        try #require(world.service.bucket(named: "guests")).totals
    }

    private func keys(_ count: Int, in vBucket: UInt16) -> [String] {
        let keys = (0..<100_000).lazy.map { "key\($0)" }
        let fitting = keys.filter { VBucketID(ofKey: Array($0.utf8), count: 64).number == vBucket }
        return Array(fitting.prefix(count))
    }

    private func revision(of key: String, _ client: Client) -> UInt64? {
        let extras = client.ask(Ask.on(0xa0, key)).first?.extras ?? []
        guard extras.count >= 20 else { return nil }
        return extras[12..<20].reduce(0) { $0 << 8 | UInt64($1) }
    }

    @Test(arguments: [(BucketType.persistent, UInt64(3)), (.ephemeral, 1)])
    func tombstonesArePurgedAfterIntervalAndNotBefore(type: BucketType, days: UInt64) throws {
        let directory = TestWorld.freshDirectory()
        defer { TestWorld.remove(directory) }
        let world = TestWorld(directory: directory)
        let settings = TestWorld.settings("guests", type)
        #expect(UInt64(settings.purgeSeconds) * 1_000 == days * PurgeTests.day)
        try world.service.open(settings)
        world.service.startHousekeeping()
        let client = world.client(of: "guests")
        _ = client.ask((0..<100).flatMap { Ask.set("key\($0)", "value") })
        _ = client.ask((0..<50).flatMap { Ask.on(0x04, "key\($0)") })
        world.pass(milliseconds: 1_000)
        world.jump(milliseconds: days * PurgeTests.day - 2 * PurgeTests.hour)
        runHousekeeping(world)
        #expect(try totals(world)[.tombstones] == 50)
        world.jump(milliseconds: PurgeTests.hour)
        runHousekeeping(world)
        #expect(try totals(world)[.tombstones] == 0)
        #expect(try totals(world)[.items] == 50)
        // New documents continue above the revisions of the purged tombstones: 1 and 2.
        #expect(client.ask(Ask.set("key7", "again")).map(\.status) == [0])
        #expect(try #require(revision(of: "key7", client)) >= 3)
        let engine = try #require(world.service.bucket(named: "guests")).engine
        let purged = engine.all.count { vBucket in vBucket.withCore { $0.purgeSeqno > .zero } }
        #expect(purged > 10)
        #expect(engine.account.bytes == TestWorld.recount(engine))
        #expect(world.trace.lines(atLeast: .error) == [])
        #expect(world.stop())
        guard type == .persistent else { return }
        let next = TestWorld(directory: directory)
        try next.service.open(settings)
        next.settle()
        #expect(try totals(next)[.tombstones] == 0)
        #expect(try totals(next)[.items] == 51)
        let reader = next.client(of: "guests")
        let statuses = reader.ask((0..<100).flatMap { Ask.get("key\($0)") }).map(\.status)
        #expect(statuses == (0..<100).map { $0 < 50 && $0 != 7 ? 1 : 0 })
    }

    /// A vBucket is purged when a tenth of its documents is due; fewer wait for the next interval.
    @Test func manyDueTombstonesArePurgedBeforeNextInterval() throws {
        let world = TestWorld()
        try world.service.open(TestWorld.settings("guests", .persistent))
        world.service.startHousekeeping()
        let client = world.client(of: "guests")
        let (few, many) = (keys(20, in: 3), keys(20, in: 5))
        _ = client.ask((few + many).flatMap { Ask.set($0, "value") })
        _ = client.ask(Ask.on(0x04, few[0]) + Ask.on(0x04, many[0]))
        world.pass(milliseconds: 1_000)
        world.jump(milliseconds: 2 * PurgeTests.day + 22 * PurgeTests.hour)
        _ = client.ask(Ask.on(0x04, few[1]) + many[1...5].flatMap { Ask.on(0x04, $0) })
        world.pass(milliseconds: 1_000)
        world.jump(milliseconds: 2 * PurgeTests.hour)
        runHousekeeping(world)
        #expect(try totals(world)[.tombstones] == 6)
        world.jump(milliseconds: 2 * PurgeTests.day + 21 * PurgeTests.hour)
        runHousekeeping(world)
        #expect(try totals(world)[.tombstones] == 1)
        world.jump(milliseconds: PurgeTests.day)
        runHousekeeping(world)
        #expect(try totals(world)[.tombstones] == 0)
        #expect(try totals(world)[.items] == 32)
    }

    @Test func keyRecreatedDuringPurgeIsKept() throws {
        let world = TestWorld()
        try world.service.open(TestWorld.settings("guests", .persistent))
        world.service.startHousekeeping()
        let client = world.client(of: "guests")
        _ = client.ask((0..<40).flatMap { Ask.set("key\($0)", "value") })
        _ = client.ask((0..<40).flatMap { Ask.on(0x04, "key\($0)") })
        world.pass(milliseconds: 1_000)
        world.jump(milliseconds: 4 * PurgeTests.day)
        // When the purge runs, these changes are not persisted.
        world.lanes.hold("writer")
        runHousekeeping(world)
        client.send((0..<20).flatMap { Ask.set("key\($0)", "again") })
        #expect(client.replies().map(\.status) == Array(repeating: 0, count: 20))
        world.lanes.release("writer")
        world.pass(milliseconds: 1_000)
        #expect(try totals(world)[.items] == 20)
        #expect(try totals(world)[.tombstones] == 0)
        #expect(try totals(world)[.diskQueue] == 0)
        world.ejectAll(from: "guests")
        let replies = client.ask((0..<40).flatMap { Ask.get("key\($0)") })
        #expect(replies.map(\.status) == (0..<40).map { $0 < 20 ? 0 : 1 })
    }

    /// The disk purges first, and memory a moment later: a document may be created in between.
    @Test(arguments: [true, false])
    func writeToTombstoneDuringPurgeIsRetried(isPurge: Bool) throws {
        let world = TestWorld()
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        _ = client.ask(Ask.set("key", "value"))
        _ = client.ask(Ask.on(0x04, "key"))
        world.pass(milliseconds: 1_000)
        for _ in 0..<2 { world.ejectAll(from: "guests") }
        let bucket = try #require(world.service.bucket(named: "guests"))
        let key = Array("key".utf8)
        let id = VBucketID(ofKey: key, count: 64)
        let vBucket = try #require(bucket.engine[id.number])
        let stubs = vBucket.withCore { $0.table.stubCount }
        try #require(stubs == 1)
        world.lanes.hold("writer")
        let file = try #require(bucket.disk).file(of: id)
        let summary = try file.purge(
            id,
            deletedBefore: .max,
            through: Seqno(.max),
            currentSeqno: { _, _, seqno in seqno },
            didPurge: { _, _ in }
        )
        #expect(summary.purged == 1)
        client.send(Ask.set("key", "again"))
        client.settle()
        #expect(client.replies().isEmpty)
        if isPurge {
            key.withUnsafeBytes { buffer in
                let view = ByteView(buffer)
                vBucket.withCore { core in
                    core.notePurge(
                        through: summary.purgeSeqno,
                        maxRevision: summary.maxRevision
                    )
                    core.forgetPurged(view, hash: bucket.engine.hash(view), seqno: Seqno(2))
                }
            }
        }
        world.lanes.release("writer")
        client.settle()
        // A tombstone that was not purged and is not on disk was lost: a second lookup does not
        // find it.
        #expect(client.replies().map(\.status) == [isPurge ? 0 : 0x84])
        guard isPurge else { return }
        #expect(try #require(revision(of: "key", client)) >= 3)
        #expect(world.trace.lines(atLeast: .error) == [])
    }

    /// Crashes at any point of a purge: deleted documents never reappear.
    @Test(arguments: 1...4 as ClosedRange<UInt64>)
    func deletedDocumentsNeverReappearAfterCrashes(seed: UInt64) throws {
        let directory = TestWorld.freshDirectory()
        defer { TestWorld.remove(directory) }
        var settings = TestWorld.settings("guests", .persistent)
        settings.evictionPolicy = seed % 2 == 0 ? .valueOnly : .fullEviction
        var random = SeededRandom(seed: seed)
        var model: [String: String] = [:]
        var elapsed: UInt64 = 0
        var purged = 0
        for life in 0..<5 {
            let world = TestWorld(directory: directory)
            world.jump(milliseconds: elapsed)
            try world.service.open(settings)
            world.settle()
            world.service.startHousekeeping()
            let client = world.client(of: "guests")
            check(model, client, "run \(life)")
            #expect(try totals(world)[.items] == UInt64(model.count))
            for step in 0..<150 {
                let key = "key\(Int.random(in: 0..<60, using: &random))"
                switch Int.random(in: 0..<20, using: &random) {
                case 0..<8:
                    model[key] = "value \(life) \(step)"
                    #expect(client.ask(Ask.set(key, "value \(life) \(step)")).first?.status == 0)
                case 8..<15:
                    let status = client.ask(Ask.on(0x04, key)).first?.status
                    #expect(status == (model[key] == nil ? 1 : 0))
                    model[key] = nil
                case 15: world.ejectAll(from: "guests")
                case 16: world.jump(milliseconds: PurgeTests.hour * 5)
                default: world.pass(milliseconds: 300)
                }
            }
            world.pass(milliseconds: 1_000)
            let before = try totals(world)[.tombstones]
            world.jump(milliseconds: 3 * PurgeTests.day - PurgeTests.hour * 6)
            world.lanes.hold("writer")
            runHousekeeping(world)
            let backlog = world.lanes.pending("writer")
            world.lanes.release("writer")
            let steps = backlog + Int.random(in: 0..<90, using: &random)
            for _ in 0..<steps { _ = world.lanes.runOne() }
            purged += Int(before - min(before, try totals(world)[.tombstones]))
            #expect(world.trace.lines(atLeast: .error) == [])
            elapsed = world.time.monotonicNanoseconds() / 1_000_000
            // The node crashes here: `stop` is not called.
        }
        #expect(purged > 20)
    }

    private func check(_ model: [String: String], _ client: Client, _ when: String) {
        for number in 0..<60 {
            let reply = client.ask(Ask.get("key\(number)")).first
            let expected = model["key\(number)"]
            #expect(reply?.status == (expected == nil ? 1 : 0), "key\(number), \(when)")
            if let expected { #expect(reply?.text == expected, "key\(number), \(when)") }
        }
    }
}
