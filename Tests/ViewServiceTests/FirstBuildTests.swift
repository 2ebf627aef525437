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

/// First builds on real files, interrupted and disturbed.
@Suite(.serialized) struct FirstBuildTests {
    private let world = IndexWorld()
    private static let map = """
        function (doc, meta) {
          for (var i = 0; i < doc.n; i++) emit([doc.k % 7, i], doc.k + i);
          if (doc.text) emit(meta.id, doc.text);
        }
        """
    /// One vBucket that is loaded late keeps the build from ending.
    private static let late = VBucketID(1)

    /// Every run is stored, and a step of the merge has a few rows.
    private var smallSteps: BulkLoad.Limits {
        var limits = BulkLoad.Limits()
        limits.runBytesMax = 1
        limits.memoryBytesMax = 1
        limits.mergedBytesMax = 2_000
        limits.idleNanoseconds = 600_000_000_000
        return limits
    }

    private func put(_ id: Int, _ random: inout SeededRandom) {
        let text = random.next() % 40 == 0 ? String(repeating: "long ", count: 500) : ""
        let (rows, key) = (random.next() % 4, random.next() % 1_000)
        world.changes.put("d\(id)", "{\"n\":\(rows),\"k\":\(key),\"text\":\"\(text)\"}")
    }

    private func change(_ ids: Range<Int>, _ random: inout SeededRandom, count: Int) {
        for _ in 0..<count {
            let id = ids.lowerBound + Int(random.next() % UInt64(ids.count))
            if random.next() % 4 == 0 { world.changes.delete("d\(id)") } else { put(id, &random) }
        }
    }

    private func runs(_ index: ViewIndex) throws -> Int {
        try world.read(index) { reads, _, _ throws(StorageError) in
            try reads.runs().count { $0.id.tree == .back }
        }
    }

    /// Waits until the stored runs have every change of all vBuckets but the late one.
    private func awaitStored(_ index: ViewIndex) throws {
        let others = MemoryChanges.vBuckets.filter { $0 != Self.late }
        let highs = world.changes.highVisible(of: others, ofBucket: "bucket")
        try waitUntil("the changes are stored in runs") {
            let positions = try world.read(index) { reads, _, _ throws(StorageError) in
                let chunk = ByteWriter()
                guard let run = try reads.runs().last(where: { $0.id.tree == .back }),
                    try reads.chunk(0, of: run.id, into: chunk)
                else { return [VBucketID: IndexPosition]() }
                return LoadPositions.decode(chunk.view) ?? [:]
            }
            return highs.allSatisfy { positions[$0.key]?.seqno == $0.value.seqno }
        }
    }

    /// The keys and values of all rows, without the order of documents.
    private func contents(_ index: ViewIndex) throws -> [String] {
        try world.read(index) { reads, nodes, head throws(StorageError) in
            var rows: [String] = []
            do throws(IndexError) {
                let walk = RangeWalk(nodes.tree(head.main, .row))
                while let entry = try walk.next() {
                    let value: [UInt8]
                    switch entry.value {
                    case .inline(let view): value = view.bytes
                    case .big(let id, _): value = try nodes.bigValue(id)
                    }
                    rows.append(
                        "\(entry.key.bytes) \(entry.vBucket) \(value.count) \(value.last ?? 0)"
                    )
                }
            } catch {
                throw StorageError(.damaged, "\(error)")
            }
            return rows
        }
    }

    private func violations(_ index: ViewIndex) throws -> [String] {
        let found = Guarded<[String]>([])
        let disk = world.linux.environment.disk
        _ = try IndexInspection(path: index.file.path, disk: disk).check { text in
            found.withLock { $0.append(text) }
        }
        return found.withLock { $0 }
    }

    /// Compares an index with one that is built now, from the documents as they are.
    private func expectAsBuiltAnew(_ index: ViewIndex) throws {
        #expect(try violations(index) == [])
        // The same function in another text: an index of its own.
        let other = try world.index(Self.map + " ")
        try world.awaitFollowed(other)
        let (ours, theirs) = (try contents(index), try contents(other))
        #expect(!ours.isEmpty && ours == theirs)
        #expect(try world.rowCounts(index) == world.rowCounts(other))
        world.close(other)
    }

    @Test func buildStoresRunsBeforeAnyVBucketAndTheLastCommitHasAll() throws {
        defer { world.stop() }
        var random = SeededRandom(seed: 1)
        for id in 0..<400 { put(id, &random) }
        world.changes.load(Self.late, false)
        let index = try world.index(Self.map, smallSteps)
        try waitUntil("a run is stored") { try runs(index) > 0 }
        // A release without bulk loads finds an index without positions, and begins anew.
        #expect(try world.homes(index) == [:])
        #expect(try contents(index) == [])
        #expect(try violations(index) == [])
        world.changes.load(Self.late, true)
        try world.awaitFresh(index)
        #expect(Set(try world.homes(index).values) == [.main])
        try expectAsBuiltAnew(index)
        try waitUntil("the runs are removed") { try runs(index) == 0 }
        #expect(try violations(index) == [])
    }

    @Test func interruptedBuildContinuesBehindItsStoredRuns() throws {
        defer { world.stop() }
        var random = SeededRandom(seed: 2)
        for id in 0..<400 { put(id, &random) }
        world.changes.load(Self.late, false)
        let first = try world.index(Self.map, smallSteps)
        try awaitStored(first)
        let stored = world.changes.delivered
        world.close(first)
        change(0..<500, &random, count: 100)
        world.changes.load(Self.late, true)
        let second = try world.index(Self.map, smallSteps)
        try world.awaitFresh(second)
        let lateDocuments = world.changes.documents(of: Self.late)
        // Changed documents, deleted ones and those of the late vBucket: no others.
        #expect(world.changes.delivered - stored <= 100 + lateDocuments + 100)
        try expectAsBuiltAnew(second)
    }

    @Test(arguments: 0..<3)
    func buildInterruptedAtEachCommitHasTheSameRows(_ seed: UInt64) throws {
        defer { world.stop() }
        var random = SeededRandom(seed: 100 + seed)
        for id in 0..<300 { put(id, &random) }
        let limits = smallSteps
        var rounds = 0
        while true {
            let index = try world.index(Self.map, limits)
            let before = try index.file.head().commit.value
            try waitUntil("a commit is stored, or the build is over") {
                let head = try index.file.head()
                return head.commit.value > before || head.state == .ready
            }
            let isOver = try index.file.head().state == .ready
            rounds += 1
            if isOver || rounds > 40 {
                try world.awaitFollowed(index)
                try expectAsBuiltAnew(index)
                return
            }
            world.close(index)
            // Documents that the stored runs have.
            if rounds < 8 { change(0..<320, &random, count: 20) }
        }
    }

    @Test func documentsThatChangeDuringTheBuildCountOnce() throws {
        defer { world.stop() }
        var random = SeededRandom(seed: 3)
        for id in 0..<300 { put(id, &random) }
        world.changes.load(Self.late, false)
        let index = try world.index(Self.map, smallSteps)
        for _ in 0..<10 {
            let before = try runs(index)
            change(0..<330, &random, count: 30)
            try waitUntil("a further run is stored") { try runs(index) > before }
        }
        world.changes.load(Self.late, true)
        try world.awaitFresh(index)
        try expectAsBuiltAnew(index)
    }

    @Test func vBucketThatDepartsDuringTheBuildLeavesNoRow() throws {
        defer { world.stop() }
        var random = SeededRandom(seed: 4)
        for id in 0..<300 { put(id, &random) }
        world.changes.load(Self.late, false)
        let index = try world.index(Self.map, smallSteps)
        try awaitStored(index)
        let kept: Set<VBucketID> = [VBucketID(0), VBucketID(2)]
        world.serve(index, kept)
        try waitUntil("only the kept vBuckets are left") {
            try world.homes(index) == [VBucketID(0): .main, VBucketID(2): .main]
        }
        #expect(try violations(index) == [])
        world.changes.load(Self.late, true)
        world.serve(index, Set(MemoryChanges.vBuckets))
        try world.awaitFresh(index)
        try expectAsBuiltAnew(index)
    }

    /// The stored runs have rows of a history that is lost.
    @Test func historyThatIsReplacedDuringTheBuildLeavesNoRow() throws {
        defer { world.stop() }
        var random = SeededRandom(seed: 5)
        for id in 0..<300 { put(id, &random) }
        world.changes.load(Self.late, false)
        let index = try world.index(Self.map, smallSteps)
        try awaitStored(index)
        let replaced = VBucketID(2)
        world.changes.replaceHistory(of: replaced)
        world.changes.wake(replaced)
        world.changes.load(Self.late, true)
        try world.awaitFollowed(index)
        try expectAsBuiltAnew(index)
    }

    @Test func vBucketThatCannotBeReadDelaysTheOthersForAMoment() throws {
        defer { world.stop() }
        var random = SeededRandom(seed: 6)
        for id in 0..<200 { put(id, &random) }
        world.changes.load(Self.late, false)
        let index = try world.index(Self.map)
        let others = MemoryChanges.vBuckets.filter { $0 != Self.late }
        try waitUntil("the others are complete") {
            let homes = try world.homes(index)
            return others.allSatisfy { homes[$0] == .main }
        }
        #expect(try world.homes(index)[Self.late] != .main)
        world.changes.load(Self.late, true)
        try world.awaitFresh(index)
        try expectAsBuiltAnew(index)
    }
}
