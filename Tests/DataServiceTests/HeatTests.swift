import DataService
import Engine
import TestWorld
import Testing
import Vocabulary

/// Hot values are loaded first, whether the node was stopped or killed.
@Suite final class HeatTests {
    let directory = TestWorld.freshDirectory()
    private let (hot, cold) = (100, 900)
    private let value = String(repeating: "v", count: 1_000)

    deinit { TestWorld.remove(directory) }

    /// A world with all documents in memory, some of them in use.
    private func busyWorld() throws -> TestWorld {
        let world = TestWorld(directory: directory)
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        _ = client.ask((0..<hot + cold).flatMap { Ask.set("key\($0)", value) })
        world.pass(milliseconds: 500)
        world.service.startHousekeeping()
        return world
    }

    /// Every tenth document is in use, so that hot ones are spread over the disk.
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

    /// The numbers of resident values among the hot and the other documents.
    private func resident(_ world: TestWorld) -> (hot: Int, cold: Int) {
        var counts = (hot: 0, cold: 0)
        for number in 0..<hot + cold where world.eject("key\(number)", from: "guests") {
            if number % 10 == 0 { counts.hot += 1 } else { counts.cold += 1 }
        }
        return counts
    }

    @Test func killedNodeWarmsUpHotValuesFirst() throws {
        let first = try busyWorld()
        use(first)
        first.pass(milliseconds: 601_000)
        // The node crashes here: `stop` is not called.
        let second = try tightWorld()
        let counts = resident(second)
        #expect(counts.hot == hot)
        #expect(counts.cold < cold * 2 / 3)
    }

    @Test func heatSurvivesWarmup() throws {
        let first = try busyWorld()
        use(first)
        first.pass(milliseconds: 601_000)
        let second = try tightWorld()
        second.service.startHousekeeping()
        // Other documents are in use now, so heat is written again: it must include the earlier hot
        // ones.
        use(second, offset: 1)
        second.pass(milliseconds: 601_000)
        let third = try tightWorld()
        #expect(resident(third).hot == hot)
    }

    @Test func onlyChangedHeatIsWritten() throws {
        let world = try busyWorld()
        use(world)
        world.pass(milliseconds: 601_000)
        /// Idle connections are closed every ten seconds, the same number of times per lane file.
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

    /// Before the values are loaded, memory has less heat than the disk.
    @Test func runningWarmupDoesNotOverwriteHeat() throws {
        let first = try busyWorld()
        use(first)
        #expect(first.stop())
        let second = TestWorld(directory: directory)
        second.lanes.hold("reader")
        try second.service.open(TestWorld.settings("guests", .persistent))
        second.service.startHousekeeping()
        second.lanes.release("reader")
        // All keys are loaded, and none of the values.
        let vBuckets = try #require(second.service.bucket(named: "guests")).engine.all
        while !vBuckets.allSatisfy({ $0.withCore { $0.isLoaded } }) {
            try #require(second.lanes.runOne())
        }
        second.lanes.hold("reader")
        // Other documents are in use meanwhile.
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
