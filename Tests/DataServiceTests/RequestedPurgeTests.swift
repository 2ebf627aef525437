import DataService
import Engine
import Seams
import TestWorld
import Testing
import Vocabulary

/// A purge of all tombstones that an operator requests.
@Suite struct RequestedPurgeTests {
    private static let hour: UInt64 = 3_600_000

    private func totals(_ world: TestWorld) throws -> BucketStatistics {
        try #require(world.service.bucket(named: "guests")).totals
    }

    /// 100 documents, of which the first 50 are deleted at the present time.
    private func fill(_ client: Client) {
        _ = client.ask((0..<100).flatMap { Ask.set("key\($0)", "value") })
        _ = client.ask((0..<50).flatMap { Ask.on(0x04, "key\($0)") })
    }

    @Test(arguments: [BucketType.persistent, .ephemeral])
    func requestedPurgeRemovesTombstonesOfAnyAge(_ type: BucketType) throws {
        let directory = TestWorld.freshDirectory()
        defer { TestWorld.remove(directory) }
        let world = TestWorld(directory: directory)
        try world.service.open(TestWorld.settings("guests", type))
        #expect(!world.service.purgeTombstones(of: "another"))
        let client = world.client(of: "guests")
        fill(client)
        world.pass(milliseconds: 1_000)
        #expect(try totals(world)[.tombstones] == 50)
        #expect(world.service.purgeTombstones(of: "guests"))
        world.settle()
        #expect(try totals(world)[.tombstones] == 0)
        #expect(try totals(world)[.items] == 50)
        let statuses = client.ask((0..<100).flatMap { Ask.get("key\($0)") }).map(\.status)
        #expect(statuses == (0..<100).map { $0 < 50 ? 1 : 0 })
        #expect(world.trace.lines(atLeast: .error) == [])
        #expect(world.stop())
        guard type == .persistent else { return }
        let next = TestWorld(directory: directory)
        try next.service.open(TestWorld.settings("guests", .persistent))
        #expect(!next.service.purgeTombstones(of: "guests"), "warmup has not ended")
        next.settle()
        #expect(try totals(next)[.tombstones] == 0)
        #expect(try totals(next)[.items] == 50)
        #expect(next.service.purgeTombstones(of: "guests"))
    }

    @Test func unpersistedTombstonesAreRemovedByNextRequestedPurge() throws {
        let world = TestWorld()
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        fill(client)
        world.pass(milliseconds: 1_000)
        // A commit begins 250 ms after the oldest change.
        _ = client.ask(Ask.on(0x04, "key50"))
        #expect(world.service.purgeTombstones(of: "guests"))
        world.settle()
        #expect(try totals(world)[.tombstones] == 1)
        world.pass(milliseconds: 1_000)
        #expect(try totals(world)[.tombstones] == 1)
        #expect(try totals(world)[.items] == 49)
        #expect(world.service.purgeTombstones(of: "guests"))
        world.settle()
        #expect(try totals(world)[.tombstones] == 0)
        #expect(world.trace.lines(atLeast: .error) == [])
    }

    /// The periodic purge removes nothing here: no tombstone is three days old.
    @Test func purgeRequestedDuringPeriodicPurgeFollowsIt() throws {
        let world = TestWorld()
        try world.service.open(TestWorld.settings("guests", .persistent))
        world.service.startHousekeeping()
        fill(world.client(of: "guests"))
        world.pass(milliseconds: 1_000)
        world.lanes.hold("writer")
        world.pass(milliseconds: Self.hour + 10_000)
        try #require(world.lanes.pending("writer") > 0)
        #expect(world.service.purgeTombstones(of: "guests"))
        #expect(try totals(world)[.tombstones] == 50)
        world.lanes.release("writer")
        world.settle()
        #expect(try totals(world)[.tombstones] == 0)
        #expect(try totals(world)[.items] == 50)
    }
}
