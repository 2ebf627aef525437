import Bytes
import DataService
import Engine
import Persistence
import Seams
import TestWorld
import Testing
import Vocabulary

/// Reads of tombstones whose value is on disk only.
@Suite struct TombstoneFetchTests {
    private static let value = TestWorld.stored([("_sync", String(repeating: "7", count: 300))])

    let world = TestWorld()

    /// What an update of a tombstone got, and how it ended.
    private final class Reading: Sendable {
        private struct State {
            var values: [[UInt8]?] = []
            var outcome: DocumentOutcome?
        }

        private let state = Guarded(State())

        /// The value at each call; nil for a missing document.
        var values: [[UInt8]?] { state.withLock { $0.values } }
        var outcome: DocumentOutcome? { state.withLock { $0.outcome } }

        func note(_ view: DocumentView?) {
            let value = view.flatMap { $0.meta.isDeleted ? $0.value.bytes : nil }
            state.withLock { $0.values.append(value) }
        }

        func end(_ outcome: DocumentOutcome) { state.withLock { $0.outcome = outcome } }
    }

    private func read(_ key: String) -> Reading {
        let reading = Reading()
        world.service.update(
            Array(key.utf8),
            inBucket: "guests",
            includesDeleted: true,
            { view, _ in
                reading.note(view)
                return .keep
            },
            { reading.end($0) }
        )
        world.settle()
        return reading
    }

    /// Stores a tombstone with seqno 1 whose value is on disk only.
    private func bury(_ key: String) throws -> OpenBucket {
        try world.service.open(TestWorld.settings("guests", .persistent))
        try world.put(key, Self.value)
        world.pass(milliseconds: 1_000)
        let isEjected = world.eject(key, from: "guests")
        #expect(isEjected)
        return try #require(world.service.bucket(named: "guests"))
    }

    @Test func tombstonesEjectedValueIsFetchedOnce() throws {
        let bucket = try bury("key")
        #expect(try world.find("key") == .init(isDeleted: true, datatype: .xattr, value: nil))
        for _ in 0..<2 {
            let reading = read("key")
            #expect(reading.values == [Self.value] && reading.outcome == .unchanged)
        }
        #expect(bucket.counters.total(.backgroundFetches) == 1)
        #expect(bucket.totals[.tombstones] == 1 && bucket.totals[.items] == 0)
        #expect(bucket.engine.account.bytes == TestWorld.recount(bucket.engine))
    }

    @Test func stubOfTombstoneIsFetchedOnceWithItsValue() throws {
        let bucket = try bury("key")
        world.ejectEverything()
        #expect(try world.find("key") == nil)
        let reading = read("key")
        #expect(reading.values == [Self.value] && reading.outcome == .unchanged)
        #expect(bucket.counters.total(.backgroundFetches) == 1)
    }

    /// The disk purges first, and memory a moment later: a value that is not found in between is
    /// not lost.
    @Test(arguments: [true, false])
    func valueMissingOnDiskIsLostOnlyWithoutPurge(isPurge: Bool) throws {
        let bucket = try bury("key")
        let key = Array("key".utf8)
        let id = VBucketID(ofKey: key, count: 64)
        let vBucket = try world.vBucket(of: "key")
        world.lanes.hold("writer")
        let summary = try #require(bucket.disk).file(of: id).purge(
            id,
            deletedBefore: .max,
            through: Seqno(.max),
            currentSeqno: { _, _, seqno in seqno },
            didPurge: { _, _ in }
        )
        #expect(summary.purged == 1)
        let reading = read("key")
        #expect(reading.outcome == nil, "the writer's lane decides")
        if isPurge {
            key.withUnsafeBytes { buffer in
                let view = ByteView(buffer)
                vBucket.withCore { core in
                    core.forgetPurged(view, hash: bucket.engine.hash(view), seqno: Seqno(1))
                }
            }
        }
        world.lanes.release("writer")
        world.settle()
        if isPurge {
            #expect(reading.outcome == .unchanged && reading.values == [nil])
            #expect(world.trace.lines(atLeast: .error) == [])
        } else {
            guard case .failed(let reason)? = reading.outcome else {
                Issue.record("a lost value is an error")
                return
            }
            #expect(reason.contains("missing on disk"))
        }
    }
}
