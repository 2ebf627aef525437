import Bytes
import DataService
import Engine
import Foundation
import LinuxPlatform
import Seams
import TestWorld
import Testing
import Vocabulary

/// Flushing to real files and reading back, with and without failures.
@Suite struct DiskTests {
    private func unpersisted(_ world: TestWorld) -> UInt64? {
        world.service.bucket(named: "guests")?.totals[.diskQueue]
    }

    private func observeSeqno(_ key: String, _ world: TestWorld) throws -> [UInt8] {
        let number = VBucketID(ofKey: Array(key.utf8), count: 64).number
        let uuid = try world.vBucket(of: key).withCore { $0.uuid.value }
        return frame(0x91, value: big(uuid), vBucket: number)
    }

    @Test func commitBegins250MillisecondsAfterOldestChange() throws {
        let world = TestWorld()
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        _ = client.ask(Ask.set("key", "value"))
        world.pass(milliseconds: 200)
        _ = client.ask(Ask.set("key", "newer"))
        #expect(unpersisted(world) == 2)
        world.pass(milliseconds: 49)
        #expect(unpersisted(world) == 2)
        world.pass(milliseconds: 1)
        #expect(unpersisted(world) == 0)
    }

    @Test func observedChangeIsCommittedAtOnce() throws {
        let world = TestWorld()
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        _ = client.ask(Ask.set("key", "value"))
        let observe = try observeSeqno("key", world)
        let first = client.ask(observe).first?.value ?? []
        let second = client.ask(observe).first?.value ?? []
        #expect(first.suffix(16) == (big(UInt64(0)) + big(UInt64(1)))[...])
        #expect(second.suffix(16) == (big(UInt64(1)) + big(UInt64(1)))[...])
    }

    /// Older clients observe keys; a fully ejected document has to be read from disk first.
    @Test func observeOfEjectedDocumentIsAnsweredFromDisk() throws {
        let world = TestWorld()
        var settings = TestWorld.settings("guests", .persistent)
        settings.evictionPolicy = .fullEviction
        try world.service.open(settings)
        let client = world.client(of: "guests")
        _ = client.ask(Ask.set("key", "value"))
        world.pass(milliseconds: 500)
        for _ in 0..<2 { world.ejectAll(from: "guests") }
        let number = VBucketID(ofKey: Array("key".utf8), count: 64).number
        let stubs = try #require(world.service.bucket(named: "guests")).engine[number]
        #expect(stubs?.withCore { $0.table.stubCount } == 1)
        let pair = big(number) + big(UInt16(3)) + Array("key".utf8)
        let reply = client.ask(frame(0x92, value: pair)).first
        #expect(reply?.status == 0)
        // Persisted.
        #expect(reply?.value.dropLast(8).last == 1)
    }

    /// The time is in the high half of the CAS field.
    ///
    /// Clients repeat OBSERVE for ten seconds if it is 0, and for twice the time otherwise, so that a time
    /// below five seconds would make them give up.
    @Test(arguments: [(7_500_000, 0), (5_000_000_000, 0), (5_000_500_000, 5_001)])
    func observeReportsTimeToPersistAboveFiveSeconds(
        _ nanoseconds: UInt64,
        _ milliseconds: UInt64
    ) throws {
        let world = TestWorld()
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        let number = VBucketID(ofKey: Array("key".utf8), count: 64).number
        let pair = big(number) + big(UInt16(3)) + Array("key".utf8)
        let observe = frame(0x92, value: pair)
        _ = client.ask(Ask.set("key", "value"))
        // The next reading of the wall clock is within the commit.
        let time = world.time
        time.interruptNextReading { time.advance(to: time.monotonicNanoseconds() + nanoseconds) }
        world.pass(milliseconds: 250)
        try #require(unpersisted(world) == 0)
        #expect(client.ask(observe).map(\.cas) == [0], "nothing waits for the disk")
        _ = client.ask(Ask.set("key", "newer"))
        let reply = try #require(client.ask(observe).first)
        #expect(reply.status == 0 && reply.value.dropLast(8).last == 0, "not persisted")
        #expect(reply.cas == milliseconds << 32)
    }

    @Test func hurriedCommitsLeaveNoTimers() throws {
        let world = TestWorld()
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        let observe = try observeSeqno("key", world)
        for round in 0..<200 {
            // Half of the changes arrive while a commit is posted, so that another one has to
            // follow.
            client.send(Ask.set("key", "value \(round)") + observe)
            client.send(Ask.set("other", "value \(round)"))
            world.settle()
        }
        // One timer per lane file for changes and one for compaction; invalid ones end within 250
        // ms.
        world.pass(milliseconds: 300)
        _ = client.ask(Ask.set("key", "value"))
        #expect(world.lanes.pending("writer") <= 8)
    }

    /// Housekeeping does not wait for a disk: the lane that writes a file also closes it.
    @Test func idleFilesAreClosedOnTheLaneOfTheirCommits() throws {
        let world = TestWorld()
        try world.service.open(TestWorld.settings("guests", .persistent))
        _ = world.client(of: "guests").ask(Ask.set("key", "value"))
        world.pass(milliseconds: 500)
        let lane = VBucketID(ofKey: Array("key".utf8), count: 64).number % 4
        let log = world.directory + "/buckets/guests/generation-1/lane-0\(lane).sqlite-wal"
        let isOpen = { try LinuxDisk().size(log) > 0 }
        #expect(try isOpen())
        world.lanes.hold("writer")
        world.service.startHousekeeping()
        world.pass(milliseconds: 25_000)
        #expect(try isOpen())
        world.lanes.release("writer")
        world.settle()
        #expect(try !isOpen())
        _ = world.client(of: "guests").ask(Ask.set("key", "newer"))
        world.pass(milliseconds: 500)
        #expect(unpersisted(world) == 0)
    }

    @Test func fullDiskRaisesAlertAndCommitIsRetriedUntilItSucceeds() throws {
        let disk = FaultyDisk(over: LinuxDisk())
        let world = TestWorld(disk: disk)
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        disk.isFull = true
        _ = client.ask(Ask.set("key", "value"))
        world.pass(milliseconds: 5_000)
        #expect(unpersisted(world) == 1)
        #expect(world.service.alerts.current.map(\.message).contains { $0.contains("no room") })
        #expect(client.ask(Ask.get("key")).map(\.text) == ["value"])
        let bucket = try #require(world.service.bucket(named: "guests"))
        #expect(bucket.statistics(readsDisk: true)[.oldestUnpersisted] >= 4_900)
        // One commit at 250 ms, and one per second since.
        #expect(bucket.counters.total(.commitFailures) == 5)
        #expect(bucket.counters.total(.commits) == 0)
        disk.isFull = false
        world.pass(milliseconds: 1_000)
        #expect(unpersisted(world) == 0)
        #expect(world.service.alerts.current.isEmpty)
    }

    @Test func nodeStopsOnFullDiskAndReportsUnpersistedChanges() throws {
        let disk = FaultyDisk(over: LinuxDisk())
        let world = TestWorld(disk: disk)
        try world.service.open(TestWorld.settings("guests", .persistent))
        _ = world.client(of: "guests").ask(Ask.set("key", "value"))
        disk.isFull = true
        #expect(world.stop())
        #expect(world.trace.lines(atLeast: .error).contains { $0.contains("unpersisted changes") })
    }

    /// An unwritten record would be trusted after a clean stop.
    @Test(arguments: [true, false])
    func unpersistedChangesAtStopAreLoggedOnFullDiskOnly(isFull: Bool) throws {
        let disk = FaultyDisk(over: LinuxDisk())
        let world = TestWorld(disk: disk)
        let settings = TestWorld.settings("guests", .persistent)
        let own = NodeNumber(1)
        let map = BucketAssignment(
            name: "guests",
            uuid: settings.uuid,
            index: 1,
            vBuckets: (0..<64).map { _ in
                VBucketAssignment(fence: 1, stage: 1, chain: [own], copies: 1)
            }
        )
        try world.service.open(settings, map, as: own, isNew: true)
        disk.isFull = isFull
        #expect(world.stop())
        let lines = world.trace.lines(atLeast: .error)
        #expect(lines.contains { $0.contains("unpersisted changes") } == isFull)
    }

    @Test func failedBucketFlushLeavesBucketUnchanged() throws {
        let disk = FaultyDisk(over: LinuxDisk())
        let world = TestWorld(disk: disk)
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        _ = client.ask(Ask.set("key", "value"))
        disk.isFull = true
        #expect(throws: (any Error).self) { try world.service.flush("guests") }
        disk.isFull = false
        #expect(client.ask(Ask.get("key")).map(\.text) == ["value"])
        world.pass(milliseconds: 2_000)
        #expect(unpersisted(world) == 0)
    }

    @Test func flushedBucketStaysEmptyAfterReopening() throws {
        let directory = TestWorld.freshDirectory()
        defer { TestWorld.remove(directory) }
        let world = TestWorld(directory: directory)
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        _ = client.ask(Ask.set("old", "value"))
        world.pass(milliseconds: 500)
        try world.service.flush("guests")
        #expect(client.ask(Ask.get("old")).map(\.status) == [1])
        _ = client.ask(Ask.set("new", "value"))
        #expect(world.stop())
        let next = TestWorld(directory: directory)
        try next.service.open(TestWorld.settings("guests", .persistent))
        next.settle()
        let reader = next.client(of: "guests")
        #expect(reader.ask(Ask.get("old") + Ask.get("new")).map(\.status) == [1, 0])
    }

    /// Leftovers of a flush are removed later by path; by then the path may belong to another
    /// bucket.
    @Test func recreatedBucketKeepsFilesWhenOldOnesAreRemoved() throws {
        let directory = TestWorld.freshDirectory()
        defer { TestWorld.remove(directory) }
        var settings = TestWorld.settings("guests", .persistent)
        let world = TestWorld(directory: directory)
        try world.service.open(settings)
        for lane in ["non-io", "writer", "reader"] { world.lanes.hold(lane) }
        for _ in 0..<3 { try world.service.flush("guests") }
        try world.service.delete("guests")
        settings.uuid = "fedcba9876543210fedcba9876543210"
        try world.service.open(settings)
        let client = world.client(of: "guests")
        for lane in ["writer", "reader"] { world.lanes.release(lane) }
        _ = client.ask(Ask.set("key", "value"))
        world.pass(milliseconds: 500)
        world.lanes.release("non-io")
        world.pass(milliseconds: 500)
        _ = client.ask((0..<50).flatMap { Ask.set("more\($0)", "value") })
        world.pass(milliseconds: 500)
        #expect(world.trace.lines(atLeast: .error) == [])
        #expect(unpersisted(world) == 0)
        #expect(world.stop())
        #expect(try LinuxDisk().list(directory + "/buckets") == ["guests"])
        let next = TestWorld(directory: directory)
        try next.service.open(settings)
        next.settle()
        #expect(next.client(of: "guests").ask(Ask.get("key")).map(\.text) == ["value"])
    }

    @Test func damagedLaneFileAffectsOnlyItsOwnVBuckets() throws {
        let directory = TestWorld.freshDirectory()
        defer { TestWorld.remove(directory) }
        let before = TestWorld(directory: directory)
        try before.service.open(TestWorld.settings("guests", .persistent))
        let writer = before.client(of: "guests")
        _ = writer.ask((0..<100).flatMap { Ask.set("key\($0)", "value") })
        #expect(before.stop())
        let lane = directory + "/buckets/guests/generation-1/lane-01.sqlite"
        let file = try #require(FileHandle(forUpdatingAtPath: lane))
        try file.write(contentsOf: [UInt8](repeating: 0x5a, count: 8_192))
        try file.close()

        let world = TestWorld(directory: directory)
        try world.service.open(TestWorld.settings("guests", .persistent))
        world.settle()
        #expect(world.service.alerts.current.contains { $0.message.contains("put aside") })
        let client = world.client(of: "guests")
        for number in 0..<100 {
            let key = "key\(number)"
            let isLost = VBucketID(ofKey: Array(key.utf8), count: 64).number % 4 == 1
            let reading = client.ask(Ask.get(key)).map(\.status)
            let writing = client.ask(Ask.set(key, "newer")).map(\.status)
            #expect(reading == [isLost ? 0x86 : 0], "\(key)")
            #expect(writing == [isLost ? 0x86 : 0], "\(key)")
        }
        #expect(world.service.bucket(named: "guests")?.warmupProgress == nil)
        world.pass(milliseconds: 1_000)
        #expect(unpersisted(world) == 0)
        #expect(world.stop())
    }

    /// A failed read is repeated by the next request, so the client is told to retry.
    @Test func failedValueReadIsRepeatedByNextRequest() throws {
        let directory = TestWorld.freshDirectory()
        defer { TestWorld.remove(directory) }
        let world = TestWorld(directory: directory)
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        let value = String(repeating: "value ", count: 100)
        _ = client.ask(Ask.set("key", value))
        world.pass(milliseconds: 500)
        #expect(world.eject("key", from: "guests"))
        let lane = Int(VBucketID(ofKey: Array("key".utf8), count: 64).number) % 4
        let file = directory + "/buckets/guests/generation-1/lane-0\(lane).sqlite"
        try FileManager.default.moveItem(atPath: file, toPath: file + ".away")
        #expect(client.ask(Ask.get("key")).map(\.status) == [0x86])
        try FileManager.default.moveItem(atPath: file + ".away", toPath: file)
        #expect(client.ask(Ask.get("key")).map(\.text) == [value])
    }

    @Test func memoryAccountMatchesCountAfterRandomOperations() throws {
        let world = TestWorld()
        try world.service.open(TestWorld.settings("guests", .persistent))
        let engine = try #require(world.service.bucket(named: "guests")).engine
        let client = world.client(of: "guests")
        var random = SeededRandom(seed: 5)
        for _ in 0..<3_000 {
            let key = "key\(Int.random(in: 0..<200, using: &random))"
            let value = String(repeating: "x", count: Int.random(in: 0..<400, using: &random))
            switch Int.random(in: 0..<12, using: &random) {
            case 0...3: _ = client.ask(Ask.set(key, value))
            case 4...5: _ = client.ask(Ask.get(key))
            case 6: _ = client.ask(Ask.on(0x04, key))
            case 7: _ = client.ask(Ask.on(0x0e, key, Array("more".utf8)))
            case 8: _ = client.ask(Ask.on(0x1c, key, extras: big(UInt32(100))))
            case 9: _ = client.ask(Ask.on(0x94, key, extras: big(UInt32(1))))
            case 10: _ = world.eject(key, from: "guests")
            default: world.pass(milliseconds: 40)
            }
        }
        #expect(engine.account.bytes == TestWorld.recount(engine))
        world.pass(milliseconds: 1_000)
        #expect(engine.account.bytes == TestWorld.recount(engine))
        #expect(unpersisted(world) == 0)
        try world.service.flush("guests")
        world.settle()
        #expect(engine.account.bytes == TestWorld.recount(engine))
    }
}
