import Bytes
import Foundation
import Indexing
import LinuxPlatform
import Persistence
import Seams
import TestSupport
import Testing
import ViewService
import Vocabulary

/// Compaction of index files, while documents change and nodes are stopped.
@Suite(.serialized) struct IndexCompactionTests {
    private let world = ServiceWorld()
    private static let map = """
        function (doc, meta) {
          emit([doc.n % 100, meta.id], doc.n);
          if (doc.text) emit("text", doc.text);
        }
        """
    private static let count = 3_000
    private static let text = String(repeating: "long ", count: 500)

    private var view: ViewDefinition { world.view("d/a", Self.map, .count) }
    private var sum: ViewDefinition {
        world.view("d/b", "function (d, m) { emit(m.id, d.n); }", .sum)
    }

    private func put(_ number: Int, _ value: Int) {
        let text = number % 100 == 0 ? ",\"text\":\"\(Self.text)\"" : ""
        world.changes.put("k\(number)", "{\"n\":\(value)\(text)}")
    }

    /// A service whose indexes have many nearly empty nodes and free pages.
    private func sparse() throws -> IndexService {
        for number in 0..<Self.count { put(number, number) }
        let service = try world.service()
        service.reconcile([world.bucket([view, sum])])
        try awaitFresh(service)
        for number in 0..<Self.count where number % 8 != 0 { world.changes.delete("k\(number)") }
        try awaitFresh(service)
        return service
    }

    private func awaitFresh(_ service: IndexService) throws {
        try world.awaitFresh(service, view)
        try world.awaitFresh(service, sum)
    }

    private func awaitCompacted(_ service: IndexService) throws {
        try waitUntil("no compaction runs") {
            try world.reports(service).allSatisfy { !$0.status.isCompacting }
        }
    }

    private func violations(_ service: IndexService) throws -> [String] {
        let found = Guarded<[String]>([])
        for view in [view, sum] {
            let disk = world.environment.disk
            let inspection = try IndexInspection(path: world.path(service, view), disk: disk)
            _ = try inspection.check { text in found.withLock { $0.append(text) } }
        }
        return found.withLock { $0 }
    }

    /// Nodes that a copy without an end has left, and whether the file has a note of a compaction.
    private func unfinished(_ service: IndexService) throws -> (
        nodes: Int, note: UnfinishedCompaction?
    ) {
        let reader = try IndexReader.inspect(
            path: world.path(service, view),
            vfs: world.environment.disk.vfsName
        )
        let head = try reader.begin()
        defer { reader.end() }
        return try reader.use { (reads) throws(StorageError) in
            var nodes = 0
            try reads.forEachNode { id, _ in
                if id >= head.nextNode { nodes += 1 }
                return true
            }
            return (nodes, try reads.unfinishedCompaction())
        }
    }

    private func lines(_ service: IndexService) throws -> [String] {
        var found: [String] = []
        let disk = world.environment.disk
        let inspection = try IndexInspection(path: world.path(service, view), disk: disk)
        try inspection.lines { found.append($0.text) }
        return Array(found.dropFirst())
    }

    private func bytes(_ service: IndexService) throws -> UInt64 {
        try world.environment.disk.size(world.path(service, view))
    }

    @Test func compactedFileIsSmallerAndHasTheSameRows() throws {
        defer { world.stop() }
        let service = try sparse()
        let rows = try lines(service)
        let index = try #require(service.index(IndexSigning.signature(of: view), ofBucket: "b1"))
        _ = try index.file.checkpoint()
        let before = try bytes(service)
        #expect(service.compact("d", ofBucket: "b1"))
        try awaitCompacted(service)
        #expect(try lines(service) == rows && rows.count > 300)
        #expect(try violations(service) == [])
        #expect(try unfinished(service) == (0, nil))
        try waitUntil("the file is shorter") { try bytes(service) < before * 2 / 3 }
        // What is committed afterwards belongs to the new trees.
        for number in 0..<200 { put(number, number + 1) }
        try awaitFresh(service)
        #expect(try violations(service) == [])
        try world.stop(service)
    }

    @Test func changesDuringACompactionAreStoredAfterIt() throws {
        defer { world.stop() }
        let service = try sparse()
        for round in 1...5 {
            #expect(service.compact("d", ofBucket: "b1"))
            for number in 0..<300 { put(number * 3, number + round) }
            try awaitFresh(service)
            try awaitCompacted(service)
            #expect(try violations(service) == [])
        }
        let numbers = Set((0..<300).map { $0 * 3 } + stride(from: 0, to: Self.count, by: 8))
        let texts = numbers.count { $0 % 100 == 0 }
        #expect(try lines(service).count == numbers.count + texts)
        try world.stop(service)
    }

    @Test func interruptedCompactionLeavesARightIndexAndIsCleanedUpAtTheNextStart() throws {
        defer { world.stop() }
        var service = try sparse()
        let rows = try lines(service)
        for round in 0..<8 {
            #expect(service.compact("d", ofBucket: "b1"))
            // An end at every stage: not timed, so which one is not certain.
            for _ in 0..<round * 2 { _ = try world.reports(service) }
            try world.stop(service)
            #expect(try violations(service) == [], "round \(round)")
            service = try world.service()
            service.reconcile([world.bucket([view, sum])])
            try awaitFresh(service)
            try awaitCompacted(service)
            #expect(try violations(service) == [], "round \(round)")
            #expect(try unfinished(service) == (0, nil), "round \(round)")
            #expect(try lines(service) == rows, "round \(round)")
        }
        try world.stop(service)
    }

    @Test func cancelledCompactionLeavesNothing() throws {
        defer { world.stop() }
        let service = try sparse()
        let rows = try lines(service)
        #expect(service.compact("d", ofBucket: "b1"))
        #expect(service.cancelCompaction("d", ofBucket: "b1"))
        try awaitCompacted(service)
        #expect(try unfinished(service) == (0, nil))
        #expect(try violations(service) == [])
        #expect(try lines(service) == rows)
        try world.stop(service)
    }

    @Test func documentThatTheNodeDoesNotHaveIsNotCompacted() throws {
        defer { world.stop() }
        let service = try world.service()
        service.reconcile([world.bucket([view])])
        try world.awaitFresh(service, view)
        #expect(!service.compact("e", ofBucket: "b1"))
        #expect(!service.compact("d", ofBucket: "b2"))
        try world.stop(service)
    }
}
