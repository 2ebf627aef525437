import Bytes
import DataService
import Engine
import LinuxPlatform
import Seams
import TestWorld
import Testing
import Vocabulary

/// A data service that is asked to stop: which requests it refuses, and what it has persisted.
@Suite struct StopTests {
    let disk = FaultyDisk(over: LinuxDisk())
    let world: TestWorld

    init() throws {
        world = TestWorld(plainBucket: "guests", disk: disk)
        try world.service.open(TestWorld.settings("guests", .persistent))
    }

    private var unpersisted: UInt64 { world.service.unpersistedCount }

    /// Begins to persist; the result has the progress, and nil for the end.
    private func persistAll() -> Guarded<[UInt64?]> {
        let events = Guarded<[UInt64?]>([])
        world.service.persistAll(
            progress: { count in events.withLock { $0.append(count) } },
            { events.withLock { $0.append(nil) } }
        )
        return events
    }

    @Test func writesAreRefusedForNowAndReadsAreAnswered() throws {
        let client = world.client(of: "guests")
        #expect(client.ask(Ask.set("key", "1")).first?.status == 0)
        world.service.refuseWrites()
        let extras = big(UInt32(100))
        let requests: [[UInt8]] = [
            Ask.set("key", "2"), Ask.set("new", "2"),
            Ask.on(0x04, "key"),
            Ask.on(0x0e, "key", Array("2".utf8)),
            Ask.counter(0x05, "key", delta: 1),
            Ask.on(0x1c, "key", extras: extras),
            Ask.on(0x1d, "key", extras: extras),
            Ask.on(0x94, "key", extras: extras),
        ]
        for request in requests {
            #expect(client.ask(request).first?.status == 0x86, "opcode \(request[1])")
        }
        let reason = client.ask(Ask.set("key", "2")).first?.text ?? ""
        #expect(reason.contains("stopping"))
        #expect(client.ask(Ask.get("key")).first?.text == "1")
    }

    @Test func bucketThatIsOpenedDuringAStopRefusesWrites() throws {
        world.service.refuseWrites()
        var settings = TestWorld.settings("late")
        settings.uuid = "1123456789abcdef0123456789abcdef"
        try world.service.open(settings)
        let client = world.client(of: "late")
        #expect(client.ask(Ask.set("key", "1")).first?.status == 0x86)
    }

    @Test func flushOfABucketDoesNotEndTheRefusal() throws {
        world.service.refuseWrites()
        try world.service.flush("guests")
        let client = world.client(of: "guests")
        #expect(client.ask(Ask.set("key", "1")).first?.status == 0x86)
    }

    @Test func handOverThatEndsDuringAStopDoesNotEndTheRefusal() throws {
        let client = world.client(of: "guests")
        world.service.refuseWrites()
        try world.vBucket(of: "key").withCore { core in
            core.beginHandOver()
            core.endHandOver(isDrained: false)
        }
        #expect(client.ask(Ask.set("key", "1")).first?.status == 0x86)
    }

    @Test func expiredDocumentMakesNoChangeDuringAStop() throws {
        let client = world.client(of: "guests")
        #expect(client.ask(Ask.set("key", "1", expiry: 1)).first?.status == 0)
        world.pass(milliseconds: 3_000)
        world.service.refuseWrites()
        #expect(unpersisted == 0)
        #expect(client.ask(Ask.get("key")).first?.status == 1)
        #expect(unpersisted == 0)
    }

    @Test func acknowledgedChangesArePersistedBeforeTheServiceIsClosed() throws {
        let client = world.client(of: "guests")
        for number in 0..<100 { _ = client.ask(Ask.set("key-\(number)", "value")) }
        world.service.refuseWrites()
        #expect(unpersisted == 100)
        let events = persistAll()
        world.settle()
        #expect(unpersisted == 0)
        #expect(events.withLock { $0 } == [nil])
        // Clients still read.
        #expect(client.ask(Ask.get("key-1")).first?.text == "value")
        world.pass(milliseconds: 5_000)
        #expect(events.withLock { $0 } == [nil])
        #expect(world.stop())
        #expect(world.trace.lines(atLeast: .error) == [])
    }

    @Test func progressIsReportedEachSecondUntilTheChangesArePersisted() throws {
        let client = world.client(of: "guests")
        for number in 0..<10 { _ = client.ask(Ask.set("key-\(number)", "value")) }
        world.service.refuseWrites()
        for lane in ["writer-0", "writer-1"] { world.lanes.hold(lane) }
        let events = persistAll()
        world.pass(milliseconds: 2_500)
        #expect(events.withLock { $0 } == [10, 10])
        for lane in ["writer-0", "writer-1"] { world.lanes.release(lane) }
        world.pass(milliseconds: 2_500)
        #expect(events.withLock { $0 } == [10, 10, nil])
        #expect(unpersisted == 0)
    }

    @Test func diskThatFailsDoesNotHoldBackAStop() throws {
        let client = world.client(of: "guests")
        disk.isFull = true
        _ = client.ask(Ask.set("key", "value"))
        world.service.refuseWrites()
        let events = persistAll()
        world.pass(milliseconds: 2_000)
        #expect(events.withLock { $0 }.last == .some(nil))
        #expect(unpersisted == 1)
        #expect(world.stop())
        let errors = world.trace.lines(atLeast: .error)
        #expect(errors.contains { $0.contains("closed with unpersisted changes") })
    }

    @Test func durableWriteThatIsNotDecidedIsAmbiguousAtTheEnd() throws {
        let world = TestWorld()
        let map = DurableTests.map([1, 2])
        let settings = TestWorld.settings("guests", .persistent)
        try world.service.open(settings, map, as: NodeNumber(1), isNew: true)
        let client = world.client(of: "guests", features: Features.usual + [DurableTests.sync])
        let extras = big(UInt32(0)) + big(UInt32(0))
        client.send(Ask.on(0x01, "key", [1], extras: extras, framing: [0x11, 1]))
        #expect(client.replies().isEmpty)
        world.service.refuseWrites()
        world.service.persistAll(progress: { _ in }, {})
        client.settle()
        #expect(client.replies().map(\.status) == [0xa3])
        #expect(world.service.unpersistedCount == 0)
    }
}
