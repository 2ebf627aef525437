import Bytes
import DataService
import Engine
import Seams
import TestWorld
import Testing
import Vocabulary
import Wire

/// The latencies of a bucket's commands, and the log of slow ones.
@Suite struct LatencyTests {
    let world = TestWorld()

    private func histogram(
        _ family: LatencyFamily,
        _ value: String? = nil,
        of bucket: String = "guests"
    ) -> LatencyHistogram? {
        world.service.bucket(named: bucket)?.latencies
            .first { reading in
                reading.family == family
                    && value.map { value in reading.labels.contains { $0.value == value } } ?? true
            }?
            .histogram
    }

    private func count(_ opcode: String, of bucket: String = "guests") -> UInt64 {
        histogram(.commands, opcode, of: bucket)?.count ?? 0
    }

    /// The median in milliseconds, rounded.
    private func median(_ histogram: LatencyHistogram?) -> Double? {
        histogram?.quantile(0.5).map { (Double($0) / 1e6).rounded() }
    }

    private var slow: [String] { world.trace.lines(of: "slow") }

    private func open(chain: [UInt16]? = nil) throws {
        let settings = TestWorld.settings("guests", .persistent)
        guard let chain else { return try world.service.open(settings) }
        let map = DurableTests.map(chain)
        try world.service.open(settings, map, as: NodeNumber(1), isNew: true)
    }

    /// A client with durable writes that executes in any order.
    private var client: Client {
        let features = Features.usual + [DurableTests.sync, Features.unordered]
        return world.client(of: "guests", features: features)
    }

    private func write(_ key: String, level: UInt8, milliseconds: UInt16 = 5_000) -> [UInt8] {
        let extras = big(UInt32(0)) + big(UInt32(0))
        let framing = [0x13, level] + big(milliseconds)
        return Ask.on(0x01, key, [1], extras: extras, framing: framing)
    }

    // MARK: Counts

    @Test func everyCommandIsCountedByItsOpcode() throws {
        try world.service.open(TestWorld.settings("guests"))
        let client = client
        let requests = Ask.set("a", "1") + Ask.get("a") + Ask.get("none") + Ask.on(.getQuiet, "b")
        _ = client.ask(requests + requests + Ask.get("a"))
        _ = client.ask(Ask.on(.touch, "a", extras: big(UInt32(9))))
        #expect(count("SET") == 2)
        #expect(count("GET") == 7)
        #expect(count("TOUCH") == 1)
        #expect(count("DELETE") == 0)
        #expect(histogram(.backgroundLoad) == nil)
    }

    @Test func commandsAreCountedForBucketThatWasSelected() throws {
        try world.service.open(TestWorld.settings("guests"))
        try world.service.open(TestWorld.settings("others"))
        world.admitAdministrator()
        let client = Client(world)
        client.send(
            frame(
                .saslAuth,
                key: Array("PLAIN".utf8),
                value: [0] + Array("Administrator".utf8) + [0] + Array("secret".utf8)
            )
        )
        client.settle()
        _ = client.replies()
        let select = { (name: String) in frame(.selectBucket, key: Array(name.utf8)) }
        let requests =
            select("guests") + Ask.get("a") + Ask.get("b") + select("others") + Ask.get("a")
        #expect(client.ask(requests).map(\.status) == [0, 1, 1, 0, 1])
        #expect(count("GET") == 2)
        #expect(count("GET", of: "others") == 1)
    }

    // MARK: Waits

    @Test(arguments: [false, true])
    func readFromDiskHasItsWholeTime(_ isTraced: Bool) throws {
        try open()
        let traced = isTraced ? [Features.tracing] : []
        let client = world.client(of: "guests", features: Features.usual + traced)
        _ = client.ask(Ask.set("key", String(repeating: "v", count: 5_000)))
        world.pass(milliseconds: 500)
        #expect(world.eject("key", from: "guests"))
        world.lanes.hold("reader")
        client.send(Ask.get("key"))
        client.settle()
        world.pass(milliseconds: 40)
        world.lanes.release("reader")
        client.settle()
        #expect(client.replies().map(\.status) == [0])
        #expect(count("GET") == 1)
        #expect(try abs(#require(median(histogram(.commands, "GET"))) - 40) <= 1)
        #expect(try abs(#require(median(histogram(.backgroundWait))) - 40) <= 1)
        #expect(histogram(.backgroundLoad)?.count == 1)
        #expect(slow == [])
    }

    @Test func durableWriteHasTimeUntilItsCommit() throws {
        try open()
        let client = client
        world.lanes.hold("writer")
        client.send(write("a", level: 3))
        client.settle()
        world.pass(milliseconds: 70)
        world.lanes.release("writer")
        client.settle()
        #expect(client.replies().map(\.status) == [0])
        let found = histogram(.syncWrites, "persist_to_majority")
        #expect(found?.count == 1)
        #expect(try abs(#require(median(found)) - 70) <= 2)
        #expect(count("SET") == 1)
        #expect(try abs(#require(median(histogram(.commands, "SET"))) - 70) <= 2)
        #expect(try #require(histogram(.disk, "commit")).count >= 1)
    }

    // MARK: Slow commands

    @Test func slowReadNamesTheFetch() throws {
        try open()
        let client = client
        _ = client.ask(Ask.set("key", String(repeating: "v", count: 5_000)))
        world.pass(milliseconds: 500)
        #expect(world.eject("key", from: "guests"))
        world.lanes.hold("reader")
        client.send(Ask.get("key"))
        client.settle()
        world.pass(milliseconds: 600)
        world.lanes.release("reader")
        client.settle()
        let id = VBucketID(ofKey: Array("key".utf8), count: 64)
        #expect(slow == ["slow: GET in bucket guests, \(id) took 600 ms: fetch 600"])
        #expect(world.service.bucket(named: "guests")?.counters.total(.slowOperations) == 1)
    }

    @Test func slowDurableWriteNamesTheDisk() throws {
        try open()
        let client = client
        world.lanes.hold("writer")
        client.send(write("a", level: 2))
        client.settle()
        world.pass(milliseconds: 800)
        world.lanes.release("writer")
        client.settle()
        #expect(client.replies().map(\.status) == [0])
        #expect(slow.count == 1)
        #expect(slow.first?.contains("SET in bucket guests") == true)
        #expect(slow.first?.hasSuffix("disk 800") == true, "\(slow)")
    }

    @Test func slowDurableWriteNamesTheReplication() throws {
        try open(chain: [1, 2])
        let client = client
        client.send(write("a", level: 2, milliseconds: 900))
        client.settle()
        world.pass(milliseconds: 900)
        client.settle()
        #expect(client.replies().map(\.status) == [0xa3])
        #expect(slow.count == 1)
        #expect(slow.first?.hasSuffix("took 900 ms: replicate 900") == true, "\(slow)")
    }

    @Test func slowTurnNamesItsExecution() throws {
        try world.service.open(TestWorld.settings("guests"))
        let client = client
        world.time.interruptNextReading { [time = world.time] in
            time.interruptNextReading { time.advance(by: 700_000_000) }
        }
        #expect(client.ask(Ask.get("a") + Ask.get("b")).count == 2)
        #expect(slow == ["slow: GET in bucket guests, 2 of one read, took 700 ms: execution 700"])
        #expect(median(histogram(.commands, "GET")).map { abs($0 - 700) <= 22 } == true)
    }

    @Test func atMostTenSlowCommandsASecondAreLogged() throws {
        try open(chain: [1, 2])
        world.service.startHousekeeping()
        let client = client
        client.send((0..<25).flatMap { write("k\($0)", level: 1, milliseconds: 700) })
        client.settle()
        world.pass(milliseconds: 700)
        client.settle()
        #expect(client.replies().count == 25)
        #expect(slow.count == 10)
        #expect(world.service.bucket(named: "guests")?.counters.total(.slowOperations) == 25)
        world.pass(milliseconds: 1_000)
        #expect(slow.count == 11)
        #expect(slow.last == "slow: 15 more slow commands were not logged")
        world.service.slowCommands.thresholdNanoseconds = 5_000_000_000
        client.send(write("late", level: 1, milliseconds: 700))
        client.settle()
        world.pass(milliseconds: 700)
        client.settle()
        #expect(slow.count == 11)
    }
}
