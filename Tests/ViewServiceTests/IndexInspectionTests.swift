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

/// What operators read of an index's file, and which damage its check finds.
@Suite(.serialized) struct IndexInspectionTests {
    private let world = IndexWorld()
    private static let map = """
        function (doc, meta) {
          if (doc.text) emit(["z", meta.id], doc.text);
          for (var i = 0; i < doc.n; i++) emit(["a", doc.k, i], doc.k + i);
        }
        """

    /// An index of 1160 rows with values and entries that are too large for leaves.
    private func makeIndex() throws -> ViewIndex {
        for number in 0..<1_000 { world.changes.put("d\(number)", "{\"n\":1,\"k\":\(number)}") }
        let text = String(repeating: "long ", count: 600)
        for number in 0..<40 { world.changes.put("t\(number)", "{\"text\":\"\(text)\"}") }
        world.changes.put("many", #"{"n":120,"k":7}"#)
        world.changes.put("gone", #"{"n":1,"k":1}"#)
        let index = try world.index(Self.map)
        index.setSlots([.numeric])
        try world.awaitFresh(index)
        world.changes.delete("gone")
        world.changes.put("d3", #"{"n":1,"k":3000}"#)
        try world.awaitFresh(index)
        try waitUntil("the slot is filled") {
            try world.read(index) { reads, _, _ throws(StorageError) in
                try index.slot(SlotDefinition.numeric.signature, in: reads) != nil
            }
        }
        return index
    }

    private func inspect(_ index: ViewIndex) throws -> IndexInspection {
        try IndexInspection(path: index.file.path, disk: world.linux.environment.disk)
    }

    private func check(_ index: ViewIndex) throws -> (IndexInspection.Extent, [String]) {
        let found = Guarded<[String]>([])
        let extent = try inspect(index).check { text in found.withLock { $0.append(text) } }
        return (extent, found.withLock { $0 })
    }

    // MARK: Lines

    @Test func dumpDescribesTheIndexAndHasEveryRowInTheOrderOfKeys() throws {
        defer { world.stop() }
        let index = try makeIndex()
        let output = ByteWriter()
        try inspect(index).lines { output.append($0) }
        let objects = try output.view.text.split(separator: "\n").map { line in
            try #require(
                try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
            )
        }
        let head = try #require(objects.first)
        #expect(head["signature"] as? String == index.file.identity.signature)
        #expect(head["bucketUUID"] as? String == "bucket")
        #expect(head["map"] as? String == Self.map)
        #expect(head["state"] as? String == "ready")
        #expect(head["rows"] as? Int == 1_160)
        #expect(head["documents"] as? Int == 1_041)
        let vBuckets = try #require(head["vBuckets"] as? [[String: Any]])
        #expect(vBuckets.compactMap { $0["vb"] as? Int } == [0, 1, 2, 3])
        #expect(vBuckets.allSatisfy { $0["home"] as? String == "main" })
        #expect(vBuckets.compactMap { $0["rows"] as? Int }.reduce(0, +) == 1_160)
        let rows = objects.dropFirst()
        #expect(rows.count == 1_160)
        let small = rows.prefix(1_120)
        let keys = small.compactMap { row in (row["key"] as? [Any])?[1] as? Int }
        #expect(keys.count == 1_120 && keys == keys.sorted())
        #expect(small.allSatisfy { $0["value"] as? Int != nil && $0["vb"] as? Int != nil })
        #expect(small.last?["id"] as? String == "d3")
        let large = rows.suffix(40)
        #expect(Set(large.compactMap { $0["id"] as? String }).count == 40)
        #expect(large.allSatisfy { ($0["value"] as? String)?.utf8.count == 3_000 })
        #expect(!rows.contains { $0["id"] as? String == "gone" })
        world.close(index)
    }

    // MARK: Check

    @Test func soundIndexHasNoViolationsWhileItIsOpenAndAfterItIsClosed() throws {
        defer { world.stop() }
        let index = try makeIndex()
        for _ in 0..<2 {
            let (extent, violations) = try check(index)
            #expect(violations == [])
            #expect(extent.rows == 1_160 && extent.documents == 1_041)
            #expect(extent.nodes > 10 && extent.partials > 4)
            world.close(index)
        }
    }

    enum Damage: String, CaseIterable, Sendable {
        case rowCount = "are noted"
        case unknownRows = "but no position"
        case position = "outside of its snapshot"
        case missingNode = "tree of rows: "
        case missingValue = "value 1 cannot be read"
        case unusedValue = "belongs to no entry"
        case unusedNode = "belongs to no tree"
        case missingDocuments = "rows, but 0 in back entries"
        case wrongResult = "is not that of its rows"
    }

    @Test(arguments: Damage.allCases) func indexCheckReportsEachDamage(_ damage: Damage) throws {
        defer { world.stop() }
        let index = try makeIndex()
        try index.file.commit { (transaction) throws(StorageError) in
            try cause(damage, transaction)
        }
        let (_, violations) = try check(index)
        #expect(violations.contains { $0.contains(damage.rawValue) }, "\(violations)")
        world.close(index)
    }

    private func cause(
        _ damage: Damage,
        _ transaction: IndexTransaction
    ) throws(StorageError) {
        var vBucket = try transaction.reads.vBuckets()[0]
        let bytes = ByteWriter()
        switch damage {
        case .rowCount:
            vBucket.rows += 1
            try transaction.write(vBucket)
        case .unknownRows: try transaction.removeVBucket(vBucket.id)
        case .position:
            vBucket.seqno = Seqno(vBucket.snapshotEnd.value + 1)
            try transaction.write(vBucket)
        case .missingNode: try transaction.removeNode(transaction.head.main.node)
        case .missingValue: try transaction.removeValue(IndexValueID(1))
        case .unusedValue:
            bytes.append("value")
            try transaction.write(transaction.head.nextValue, bytes.view)
            transaction.head.nextValue = IndexValueID(transaction.head.nextValue.value + 1)
        case .unusedNode:
            _ = try transaction.reads.node(transaction.head.main.node, into: bytes)
            try transaction.write(transaction.head.nextNode, bytes.view)
            transaction.head.nextNode = IndexNodeID(transaction.head.nextNode.value + 1)
        case .missingDocuments: transaction.head.back = .empty
        case .wrongResult: try swapResults(transaction)
        }
    }

    /// Exchanges the stored results of the first two children of the root.
    private func swapResults(_ transaction: IndexTransaction) throws(StorageError) {
        let root = transaction.head.main.node
        guard let slot = try transaction.reads.slots().first else {
            throw StorageError(.missing, "the index has no slot")
        }
        let bytes = ByteWriter()
        let isFound = try transaction.reads.reduction(slot.id, root, into: bytes)
        guard isFound, let table = PartialTable(body: bytes.view), table.entries.count > 2 else {
            throw StorageError(.missing, "the root has no table")
        }
        let writer = PartialTableWriter()
        for (place, entry) in table.entries.enumerated() {
            let other = place < 2 ? 1 - place : place
            let source = table.entries[other]
            guard
                let result = table.result(of: source.child, version: source.version, hint: other)
            else { throw StorageError(.missing, "the table lacks a result") }
            writer.append(entry.child, version: entry.version, result)
        }
        try transaction.writeReduction(slot.id, root, body: writer.finish())
    }

    @Test func fileThatIsNoIndexIsRefused() throws {
        defer { world.stop() }
        let path = FileManager.default.temporaryDirectory
            .appending(path: "divan-no-index-\(UUID().uuidString).sqlite").path
        try Data("no index".utf8).write(to: URL(fileURLWithPath: path))
        defer { try? FileManager.default.removeItem(atPath: path) }
        let disk = world.linux.environment.disk
        #expect(throws: StorageError.self) { try IndexInspection(path: path, disk: disk) }
        #expect(throws: StorageError.self) {
            try IndexInspection(path: path + ".absent", disk: disk)
        }
    }
}
