import Bytes
import Indexing
import TestSupport
import Testing
import Vocabulary

@Suite struct TreeTests {
    /// Node size, longest key, longest value, seed.
    static let cases: [(Int, Int, Int, UInt64)] = [
        (256, 40, 40, 1), (256, 16 << 10, 2_000, 2), (512, 300, 700, 3), (1_024, 2_000, 3_000, 4),
        (4_036, 100, 50, 5), (4_036, 16 << 10, 5_000, 6), (256, 3, 2, 7), (333, 900, 90, 8),
    ]

    @Test(arguments: cases)
    func randomBatchesMakeTreeEqualToSortedArray(
        nodeBytes: Int,
        longestKey: Int,
        longestValue: Int,
        seed: UInt64
    ) throws {
        var random = SeededRandom(seed: seed)
        for kind in [EntryKind.row, .document] {
            var model = TreeModel(NodeFormat(bodyBytesMax: nodeBytes), kind: kind)
            for round in 0..<60 {
                // The tree grows, then shrinks, until it is empty.
                let isShrinking = round % 30 > 18
                let keys = model.sortedKeys
                var operations: [(key: [UInt8], entry: ModelEntry?)] = []
                for _ in 0..<random.below(round % 7 == 0 ? 600 : 30) {
                    let isKnown = !keys.isEmpty && random.below(2) == 0
                    let key =
                        isKnown ? keys[random.below(keys.count)] : random.key(longest: longestKey)
                    let isRemoval = random.below(10) < (isShrinking ? 9 : 3)
                    operations.append((key, isRemoval ? nil : random.entry(longest: longestValue)))
                }
                if round % 30 == 29 {
                    operations = model.sortedKeys.map { ($0, nil) }
                } else if isShrinking {
                    let start = random.below(keys.count + 1)
                    operations += keys.dropFirst(start).prefix(keys.count / 5).map { ($0, nil) }
                }
                let before = model.root.rows
                let result = try model.apply(operations)
                let difference = try model.difference()
                try #require(difference == nil, "seed \(seed), round \(round)")
                let change = result.rowsAdded - result.rowsRemoved
                try #require(Int(model.root.rows) - Int(before) == change, "seed \(seed)")
            }
            try #require(model.root == .empty || !model.entries.isEmpty, "seed \(seed)")
        }
    }
}

extension TreeTests {
    @Test(arguments: cases)
    func bulkLoadAndLaterBatchesMakeTreeEqualToSortedArray(
        nodeBytes: Int,
        longestKey: Int,
        longestValue: Int,
        seed: UInt64
    ) throws {
        var random = SeededRandom(seed: seed &+ 100)
        for count in [0, 1, 2, 17, 300, 3_000] {
            var model = TreeModel(NodeFormat(bodyBytesMax: nodeBytes))
            for _ in 0..<count {
                model.entries[random.key(longest: longestKey)] = random.entry(longest: longestValue)
            }
            model.load()
            try #require(try model.difference() == nil, "seed \(seed), \(count) entries")
            for _ in 0..<5 {
                let operations = (0..<random.below(50)).map { _ in
                    (
                        random.key(longest: longestKey),
                        random.below(2) == 0 ? nil : random.entry(longest: longestValue)
                    )
                }
                try model.apply(operations)
                try #require(try model.difference() == nil, "seed \(seed), \(count) entries")
            }
        }
    }

    @Test func batchAppliedTwiceEqualsOnce() throws {
        var random = SeededRandom(seed: 300)
        var model = TreeModel(NodeFormat(bodyBytesMax: 512))
        for _ in 0..<40 {
            let operations = (0..<100).map { _ in
                (random.key(longest: 30), random.below(3) == 0 ? nil : random.entry(longest: 100))
            }
            try model.apply(operations)
            let root = model.root
            let stored = model.store.bodies
            let again = try model.apply(operations)
            #expect(again.writes.isEmpty && again.freed.isEmpty)
            #expect(again.rowsAdded == 0 && again.rowsRemoved == 0)
            #expect(model.root == root && model.store.bodies == stored)
            try #require(try model.difference() == nil)
        }
    }

    @Test func lastOperationOnAKeyCounts() throws {
        var model = TreeModel(.standard)
        let old = ModelEntry(vBucket: 1, value: [1])
        let new = ModelEntry(vBucket: 2, value: [2])
        try model.apply([([2], old), ([1], old), ([2], nil), ([1], nil), ([1], new)])
        #expect(model.root.rows == 1)
        #expect(try model.difference() == nil)
    }

    /// Old rows leave scattered, new ones arrive in order: nodes must not stay nearly empty.
    @Test func nodesStayFullEnoughUnderGrowingKeysAndScatteredRemovals() throws {
        var random = SeededRandom(seed: 400)
        var model = TreeModel(NodeFormat(bodyBytesMax: 1_024))
        var next = 0
        func key(_ number: Int) -> [UInt8] { Array("key-\(1_000_000 + number)".utf8) }
        for _ in 0..<200 {
            var operations: [(key: [UInt8], entry: ModelEntry?)] = []
            for _ in 0..<20 {
                operations.append((key(next), ModelEntry(vBucket: 7, value: [1, 2, 3])))
                next += 1
            }
            for _ in 0..<10 { operations.append((key(random.below(next)), nil)) }
            try model.apply(operations)
        }
        #expect(try model.difference() == nil)
        let check = TreeCheck.run(model.tree)
        let bytes = Double(check.bytes) / Double(model.root.rows)
        #expect(bytes < 24, "\(bytes) bytes per row")
    }

    @Test func writtenNodesHaveNewVersionsUpToTheRoot() throws {
        var random = SeededRandom(seed: 500)
        var model = TreeModel(NodeFormat(bodyBytesMax: 256))
        for _ in 0..<2_000 { model.entries[random.key(longest: 20)] = random.entry(longest: 20) }
        model.load()
        let before = model.store.bodies
        let root = model.root
        let result = try model.apply([(model.sortedKeys[700], ModelEntry(vBucket: 3, value: []))])
        var levels: [Int] = []
        try result.writes.visit { write in
            levels.append(write.level)
            let old = try #require(before[write.id])
            let node = try MemoryStore.node(write.id, old, model.store.format)
            #expect(write.version == node.version + 1)
        }
        #expect(levels == Array(0..<root.height))
        #expect(model.root.id == root.id && model.root.version == root.version + 1)
    }

    /// With keys of 22 bytes: a number, a document id of ten bytes, the end, the count.
    @Test func rowOfAShortKeyTakesUnderSixtyBytesWithItsBackEntry() throws {
        let (main, back) = try SmallRows.load(20_000)
        let rows = Double(main.root.rows)
        let bytes = [main, back].map { Double(TreeCheck.run($0.tree).bytes) / rows }
        print("bytes per row: main \(bytes[0]), back \(bytes[1])")
        #expect(bytes[0] + bytes[1] < 60)
        let violations = try IndexCheck.violations(
            main: main.tree,
            back: back.tree,
            appendRowKey: SmallRows.appendRowKey
        )
        #expect(violations.isEmpty, "\(violations.prefix(3))")
    }

    @Test func indexWithoutARowOrWithAnotherValueIsFoundInconsistent() throws {
        for change in 0..<3 {
            var (main, back) = try SmallRows.load(500)
            let key = main.sortedKeys[123]
            switch change {
            case 0: try main.apply([(key, nil)])
            case 1: try main.apply([(key, ModelEntry(vBucket: 3, value: [9]))])
            default: try back.apply([(back.sortedKeys[4], nil)])
            }
            let violations = try IndexCheck.violations(
                main: main.tree,
                back: back.tree,
                appendRowKey: SmallRows.appendRowKey
            )
            #expect(violations.count == 1, "\(change): \(violations)")
        }
    }
}

/// Rows as those of `emit(doc.age, number)`.
enum SmallRows {
    static func appendRowKey(_ row: BackEntry.Row, _ id: ByteView, _ output: ByteWriter) {
        output.append(row.sortKey)
        output.append(id)
        output.append(UInt8(0))
        output.append(bigEndian: row.number)
    }

    static func load(_ count: Int) throws -> (main: TreeModel, back: TreeModel) {
        var random = SeededRandom(seed: 600)
        var main = TreeModel(.standard)
        var back = TreeModel(.standard, kind: .document)
        let output = ByteWriter()
        for index in 0..<count {
            let id = Array("user\(100_000 + index)".utf8)
            let vBucket = UInt16(random.below(1_024))
            let age = Double(random.below(80)).bitPattern ^ 1 << 63
            let sortKey = [0x20] + withUnsafeBytes(of: age.bigEndian) { [UInt8]($0) }
            let value = Array("\(random.below(1_000))".utf8)
            sortKey.withView { sortKey in
                let row = BackEntry.Row(
                    sortKey: sortKey,
                    number: 0,
                    valueChecksum: value.withView { CRC32C.checksum($0) }
                )
                output.removeAll()
                id.withView { appendRowKey(row, $0, output) }
                main.entries[output.bytes] = ModelEntry(vBucket: vBucket, value: value)
                output.removeAll()
                BackEntry.append(row, to: output)
                let list = output.bytes
                output.removeAll()
                id.withView { BackEntry.appendKey(VBucketID(vBucket), documentID: $0, to: output) }
                back.entries[output.bytes] = ModelEntry(vBucket: vBucket, value: list)
            }
        }
        main.load()
        back.load()
        return (main, back)
    }
}
