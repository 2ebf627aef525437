import DataService
import Engine
import TestWorld
import Testing
import Vocabulary

/// What was in use comes back first, whether a node was stopped or killed.
@Suite final class HeatTests {
    let directory = TestWorld.freshDirectory()
    private let (hot, cold) = (100, 900)
    private let value = String(repeating: "v", count: 1_000)

    deinit { TestWorld.remove(directory) }

    /// All documents in memory, some of them in use.
    private func busyWorld() throws -> TestWorld {
        let world = TestWorld(directory: directory)
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        _ = client.ask((0..<hot + cold).flatMap { Ask.set("key\($0)", value) })
        world.pass(milliseconds: 500)
        world.service.startHousekeeping()
        return world
    }

    /// Every tenth document is one of those in use: they lie among the others on disk.
    private func use(_ world: TestWorld, offset: Int = 0) {
        let client = world.client(of: "guests")
        let requests = (0..<hot).flatMap { Ask.get("key\($0 * 10 + offset)") }
        for _ in 0..<300 {
            client.send(requests)
            _ = client.replies()
        }
    }

    /// A world with memory for a third of the values, after warmup.
    private func tightWorld() throws -> TestWorld {
        let world = TestWorld(directory: directory)
        let settings = TestWorld.settings("guests", .persistent, quota: 800 << 10)
        try world.service.open(settings)
        world.settle()
        return world
    }

    /// How many documents have their value in memory, of those in use and of the others.
    private func resident(_ world: TestWorld) -> (hot: Int, cold: Int) {
        var counts = (hot: 0, cold: 0)
        for number in 0..<hot + cold where world.eject("key\(number)", from: "guests") {
            if number % 10 == 0 { counts.hot += 1 } else { counts.cold += 1 }
        }
        return counts
    }

    @Test func aKilledNodeWarmsUpHotFirst() throws {
        let first = try busyWorld()
        use(first)
        first.pass(milliseconds: 601_000)
        // It dies here: nobody stops it.
        let second = try tightWorld()
        let counts = resident(second)
        #expect(counts.hot == hot)
        #expect(counts.cold < cold * 2 / 3)
    }

    @Test func heatOutlivesAWarmup() throws {
        let first = try busyWorld()
        use(first)
        first.pass(milliseconds: 601_000)
        let second = try tightWorld()
        second.service.startHousekeeping()
        // Others are in use now, so heat is written anew: what was hot before must be in it.
        use(second, offset: 1)
        second.pass(milliseconds: 601_000)
        let third = try tightWorld()
        #expect(resident(third).hot == hot)
    }

    @Test func onlyChangesOfHeatAreWritten() throws {
        let world = try busyWorld()
        use(world)
        world.pass(milliseconds: 601_000)
        /// Idle connections are looked after every ten seconds, the same number of times a lane.
        func isWritten() -> Bool {
            world.settle()
            world.lanes.hold("writer")
            defer { world.lanes.release("writer") }
            let before = world.lanes.pending("writer")
            world.pass(milliseconds: 600_000)
            return (world.lanes.pending("writer") - before) % 60 != 0
        }
        #expect(!isWritten())
        _ = world.client(of: "guests").ask(Ask.get("key1"))
        #expect(!isWritten())
        use(world, offset: 1)
        #expect(isWritten())
    }

    /// What memory has before values are back is less than what the disk knows.
    @Test func aWarmupUnderWayIsNotTakenForCold() throws {
        let first = try busyWorld()
        use(first)
        #expect(first.stop())
        let second = TestWorld(directory: directory)
        second.lanes.hold("reader")
        try second.service.open(TestWorld.settings("guests", .persistent))
        second.service.startHousekeeping()
        second.lanes.release("reader")
        // Until all keys are back, and none of the values.
        let vBuckets = try #require(second.service.bucket(named: "guests")).engine.all
        while !vBuckets.allSatisfy({ $0.withCore { $0.isLoaded } }) {
            try #require(second.lanes.runOne())
        }
        second.lanes.hold("reader")
        // Others are in use meanwhile.
        let client = second.client(of: "guests")
        let requests = (0..<hot).flatMap { Ask.set("key\($0 * 10 + 1)", value) }
        for _ in 0..<300 {
            client.send(requests)
            _ = client.replies()
        }
        second.pass(milliseconds: 601_000)
        #expect(second.stop())
        #expect(resident(try tightWorld()).hot == hot)
    }
}
