import DataService
import Persistence
import TestWorld
import Testing
import Vocabulary

/// Compaction of a bucket's documents on request: its progress, its end, and its cancellation.
@Suite final class CompactionRequestTests {
    private let directory = TestWorld.freshDirectory()
    private let keys = (0..<2_000).map { "key-\($0)" }

    deinit { TestWorld.remove(directory) }

    /// A world with a bucket in whose older blocks about every other document is dead.
    private func makeWorld() throws -> TestWorld {
        let world = TestWorld(directory: directory)
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        let changed = stride(from: 0, to: keys.count, by: 2).map { keys[$0] }
        for part in [keys, changed] {
            let answers = client.ask(part.flatMap { Ask.set($0, "value of \($0)") })
            #expect(answers.allSatisfy { $0.status == 0 })
            world.pass(milliseconds: 400)
        }
        #expect(try dead(world) == changed.count)
        return world
    }

    /// Dead versions in all four lane files.
    private func dead(_ world: TestWorld) throws -> Int {
        let disk = try #require(world.service.bucket(named: "guests")?.disk)
        return (0..<4 as Range<UInt16>).reduce(0) { sum, lane in
            sum + disk.file(of: VBucketID(lane)).compactionNeeded().dead
        }
    }

    private func work(_ world: TestWorld) -> CompactionWork? {
        world.service.compaction(ofBucket: "guests")
    }

    private func expectAllDocuments(_ world: TestWorld) throws {
        let client = world.client(of: "guests")
        let answers = client.ask(keys.flatMap { Ask.get($0) })
        #expect(answers.count == keys.count)
        for (key, answer) in zip(keys, answers) {
            #expect(answer.status == 0 && answer.value == Array("value of \(key)".utf8), "\(key)")
        }
    }

    @Test func requestedCompactionShowsItsWorkUntilAllFilesAreCompacted() throws {
        let world = try makeWorld()
        #expect(work(world) == nil)
        world.lanes.hold("writer")
        #expect(world.service.compact("guests"))
        #expect(work(world) == CompactionWork(done: 0, total: UInt64(keys.count)))
        world.lanes.release("writer")
        var last = CompactionWork(done: 0, total: 0)
        while let next = work(world) {
            #expect(next.done >= last.done && next.done <= next.total)
            last = next
            try #require(world.lanes.runOne())
        }
        #expect(last.done == UInt64(keys.count) && last.total == last.done)
        #expect(try dead(world) == 0)
        // Another one has nothing to do, and ends.
        #expect(world.service.compact("guests"))
        world.settle()
        #expect(work(world) == nil)
        try expectAllDocuments(world)
        #expect(world.stop())
    }

    @Test func cancelledCompactionEndsBetweenTwoStepsAndLosesNothing() throws {
        let world = try makeWorld()
        let before = try dead(world)
        #expect(world.service.compact("guests"))
        while let next = work(world), next.done == 0 { try #require(world.lanes.runOne()) }
        let begun = try #require(work(world))
        #expect(begun.done < begun.total)
        world.service.cancelCompaction(ofBucket: "guests")
        #expect(work(world) == nil)
        world.settle()
        let left = try dead(world)
        #expect(left > 0 && left < before)
        try expectAllDocuments(world)
        #expect(world.stop())
        let again = TestWorld(directory: directory)
        try again.service.open(TestWorld.settings("guests", .persistent))
        again.settle()
        try expectAllDocuments(again)
        // A later request compacts the rest.
        #expect(again.service.compact("guests"))
        again.settle()
        #expect(try dead(again) == 0)
        #expect(again.stop())
    }

    @Test func requestAfterACancellationWithdrawsIt() throws {
        let world = try makeWorld()
        world.lanes.hold("writer")
        #expect(world.service.compact("guests"))
        world.service.cancelCompaction(ofBucket: "guests")
        #expect(work(world) == nil)
        #expect(world.service.compact("guests"))
        #expect(work(world) == CompactionWork(done: 0, total: UInt64(keys.count)))
        world.lanes.release("writer")
        world.settle()
        #expect(try dead(world) == 0)
        #expect(work(world) == nil)
        // Without a compaction, there is nothing to cancel, and the next one is not cancelled.
        world.service.cancelCompaction(ofBucket: "guests")
        #expect(world.service.compact("guests"))
        #expect(work(world) != nil)
        #expect(world.stop())
    }

    @Test func compactionOfABucketThatIsNotLoadedIsRefused() throws {
        let before = try makeWorld()
        #expect(before.stop())
        let world = TestWorld(directory: directory)
        world.lanes.hold("reader")
        try world.service.open(TestWorld.settings("guests", .persistent))
        world.settle()
        #expect(!world.service.compact("guests"))
        #expect(work(world) == nil)
        world.lanes.release("reader")
        world.settle()
        #expect(world.service.compact("guests"))
        #expect(!world.service.compact("unknown"))
        // A bucket without files is compact.
        try world.service.open(TestWorld.settings("cache"))
        #expect(world.service.compact("cache"))
        #expect(world.service.compaction(ofBucket: "cache") == nil)
        #expect(world.stop())
    }
}
