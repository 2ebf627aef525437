import Bytes
import Indexing
import TestSupport
import Testing
import Vocabulary

@Suite struct ReduceTests {
    /// A tree of numbers, with its numeric slot, as an index keeps them.
    struct NumberIndex {
        var model: TreeModel
        let slot = PartialStore()

        init(nodeBytes: Int, count: Int, _ random: inout SeededRandom) throws {
            model = TreeModel(NodeFormat(bodyBytesMax: nodeBytes))
            for _ in 0..<count {
                model.entries[NumberIndex.key(&random)] = NumberIndex.entry(&random)
            }
            let before = model.tree
            // In pieces, as a build that writes 16 MiB at a time.
            let builder = BulkBuilder(of: .row, format: model.store.format, numbers: model.numbers)
            let update = NumericSlotUpdate(before, partials: slot)
            for key in model.sortedKeys {
                guard let entry = model.entries[key] else { continue }
                _ = key.withView { key in
                    entry.value.withView {
                        builder.append(key: key, vBucket: VBucketID(entry.vBucket), value: $0)
                    }
                }
                if builder.writes.byteCount > 3_000 { try collect(builder, update) }
            }
            model.root = builder.finish()
            try collect(builder, update)
            model.numbers = builder.numbers
        }

        private func collect(_ builder: BulkBuilder, _ update: NumericSlotUpdate) throws {
            model.store.store(builder.writes)
            try update.process(
                builder.writes,
                bigValues: { _ in nil },
                store: { slot.tables[$0] = $1.bytes }
            )
            builder.writes.removeAll()
        }

        /// At least four bytes, so that no group of a level up to four is the beginning of another.
        static func key(_ random: inout SeededRandom) -> [UInt8] {
            (0..<4).map { _ in UInt8(random.below(3) * random.below(3)) } + random.key(longest: 30)
        }

        static func entry(_ random: inout SeededRandom) -> ModelEntry {
            let value =
                switch random.below(9) {
                case 0: "\(Double(random.below(1_000_000)) / 128)"
                case 1: "-\(random.below(1_000))"
                case 2: "\(random.below(1 << 53))"
                default: "\(random.below(1_000))"
                }
            return ModelEntry(vBucket: UInt16(random.below(1_024)), value: Array(value.utf8))
        }

        mutating func apply(_ operations: [(key: [UInt8], entry: ModelEntry?)]) throws {
            let before = model.tree
            let result = try model.apply(operations)
            let update = NumericSlotUpdate(before, partials: slot)
            try update.process(
                result.writes,
                bigValues: { model.store.bigValues[$0] },
                store: { slot.tables[$0] = $1.bytes }
            )
            for id in result.freed { slot.tables[id] = nil }
        }

        mutating func change(_ random: inout SeededRandom) throws {
            let keys = model.sortedKeys
            try apply(
                (0..<random.below(60)).map { _ in
                    let isKnown = !keys.isEmpty && random.below(3) > 0
                    let key = isKnown ? keys[random.below(keys.count)] : NumberIndex.key(&random)
                    return (key, random.below(3) == 0 ? nil : NumberIndex.entry(&random))
                }
            )
        }

        func matches(_ key: [UInt8], _ range: KeyRange, _ mask: VBucketMask?) -> Bool {
            WalkTests.matches(key, range)
                && mask?.contains(VBucketID(model.entries[key]?.vBucket ?? 0)) ?? true
        }

        func expected(_ keys: [[UInt8]]) -> NumericPartial {
            var partial = NumericPartial()
            for key in keys { model.entries[key]?.value.withView { partial.add($0) } }
            return partial
        }
    }

    static func texts(_ partial: NumericPartial) -> [String?] {
        BuiltinReduction.allCases.map { reduction in
            let output = ByteWriter()
            let hasResult = partial.appendResult(of: reduction, to: output)
            return hasResult ? output.view.text : nil
        }
    }

    @Test(arguments: [(256, 900, 21), (512, 2_000, 22), (4_036, 4_000, 23), (256, 3, 24)])
    func rangeReductionsEqualPlainEvaluationAfterEveryBatch(
        nodeBytes: Int,
        count: Int,
        seed: UInt64
    ) throws {
        var random = SeededRandom(seed: seed)
        var index = try NumberIndex(nodeBytes: nodeBytes, count: count, &random)
        for round in 0..<25 {
            let keys = index.model.sortedKeys
            for _ in 0..<10 {
                let range = WalkTests.range(keys, &random)
                let expected = index.expected(keys.filter { index.matches($0, range, nil) })
                let found = try index.model.tree.reduceNumbers(range, partials: index.slot)
                try #require(Self.texts(found) == Self.texts(expected), "seed \(seed), \(round)")
            }
            try index.change(&random)
            try #require(try index.model.difference() == nil, "seed \(seed), \(round)")
        }
    }

    /// After every edit the slot is complete: a reduction reads no leaves but those at the borders.
    @Test func reductionOfARangeReadsAFewNodesOfEachLevel() throws {
        var random = SeededRandom(seed: 25)
        var index = try NumberIndex(nodeBytes: 512, count: 6_000, &random)
        for _ in 0..<20 {
            let keys = index.model.sortedKeys
            let before = index.model.store.reads
            _ = try index.model.tree.reduceNumbers(
                KeyRange(start: keys[50], end: keys[keys.count - 50]),
                partials: index.slot
            )
            let reads = index.model.store.reads - before
            #expect(reads <= 2 * index.model.root.height, "\(reads)")
            let inner = TreeCheck.run(index.model.tree).nodes.filter {
                index.slot.tables[$0] != nil
            }
            #expect(inner.count == index.slot.tables.count)
            try index.change(&random)
        }
    }

    @Test(arguments: [(256, 800, 31), (4_036, 3_000, 32)])
    func groupReductionsEqualPlainEvaluation(nodeBytes: Int, count: Int, seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let index = try NumberIndex(nodeBytes: nodeBytes, count: count, &random)
        let keys = index.model.sortedKeys
        for round in 0..<150 {
            let range = WalkTests.range(keys, &random)
            var settings = GroupWalk.Settings { key, level in min(level, key.count) }
            settings.isDescending = random.below(2) == 0
            settings.mask = random.below(3) == 0 ? WalkTests.mask(&random) : nil
            settings.level = random.below(4)
            let (level, mask) = (settings.level, settings.mask)
            let rows = keys.filter { index.matches($0, range, mask) }
            let groups = Dictionary(grouping: rows) { Array($0.prefix(level)) }
            var expected = groups.keys.sorted { $0.lexicographicallyPrecedes($1) }
            if settings.isDescending { expected.reverse() }
            var found: [[UInt8]] = []
            var wrong = 0
            try index.model.tree.reduceNumberGroups(range, settings, partials: index.slot) {
                found.append($0)
                if Self.texts($1) != Self.texts(index.expected(groups[$0] ?? [])) { wrong += 1 }
            }
            let isEqual = found == expected && wrong == 0
            try #require(isEqual, "seed \(seed), round \(round)")
        }
    }
}

extension Tree {
    /// Reduces the numbers of each group as a query does: rows that the walk passes, and large groups
    /// by stored results, or with a mask row by row.
    func reduceNumberGroups(
        _ range: KeyRange,
        _ settings: GroupWalk.Settings,
        partials: any PartialSource,
        _ body: (_ prefix: [UInt8], NumericPartial) -> Void
    ) throws(IndexError) {
        let groups = GroupWalk(self, range, settings: settings)
        while true {
            var total = NumericPartial()
            let group = try groups.next { (entry) throws(IndexError) in
                try source.withValue(entry.value) { total.add($0) }
            }
            guard let group else { return }
            if let range = group.range, let mask = settings.mask {
                let walk = RangeWalk(self, range)
                while let entry = try walk.next() {
                    guard mask.contains(entry.vBucket) else { continue }
                    try source.withValue(entry.value) { total.add($0) }
                }
            } else if let range = group.range {
                total = try reduceNumbers(range, partials: partials)
            }
            if total.count > 0 { body(group.prefix, total) }
        }
    }
}

/// Custom reductions, by one that does not commute: it strings the values together.
@Suite struct CustomReduceTests {
    /// Computes what the machine asks for, and returns the groups.
    private func run(
        _ reduce: CustomReduce,
        _ index: ReduceTests.NumberIndex,
        _ slot: PartialStore
    ) throws -> (groups: [(prefix: [UInt8], result: [UInt8])], rows: Int) {
        var groups: [(prefix: [UInt8], result: [UInt8])] = []
        var rows = 0
        while true {
            switch try reduce.next(readsMax: 5) {
            case .paused: continue
            case .done:
                return (groups, rows)
            case .group(let prefix, let result):
                groups.append((prefix, result))
            case .needs(let calls):
                #expect(!calls.isEmpty && calls.count <= 200)
                let results = calls.map { call in
                    var result: [UInt8] = []
                    for place in 0..<call.count {
                        result += call.value(place).bytes + (call.isRereduce ? [] : [0x2c])
                    }
                    if !call.isRereduce { rows += call.count }
                    return result
                }
                reduce.supply(results)
                try slot.store(reduce.computed, index.model.store)
                reduce.computed = []
            }
        }
    }

    private func expected(_ keys: [[UInt8]], _ index: ReduceTests.NumberIndex) -> [UInt8] {
        keys.flatMap { (index.model.entries[$0]?.value ?? []) + [0x2c] }
    }

    @Test(arguments: [(256, 900, 41), (512, 2_500, 42), (4_036, 3_000, 43), (256, 2, 44)])
    func customRangeReductionEqualsPlainEvaluationAfterChanges(
        nodeBytes: Int,
        count: Int,
        seed: UInt64
    ) throws {
        var random = SeededRandom(seed: seed)
        var index = try ReduceTests.NumberIndex(nodeBytes: nodeBytes, count: count, &random)
        let slot = PartialStore()
        for round in 0..<20 {
            let keys = index.model.sortedKeys
            for _ in 0..<4 {
                let range = WalkTests.range(keys, &random)
                let mask = random.below(4) == 0 ? WalkTests.mask(&random) : nil
                let reduce = CustomReduce(index.model.tree, range, mask: mask, partials: slot)
                let groups = try run(reduce, index, slot).groups
                let rows = keys.filter { index.matches($0, range, mask) }
                try #require(groups.count == (rows.isEmpty ? 0 : 1), "seed \(seed), \(round)")
                let isEqual = groups.first?.result ?? [] == expected(rows, index)
                try #require(isEqual, "seed \(seed), round \(round)")
            }
            try index.change(&random)
        }
    }

    @Test func secondReductionComputesNoLeafAgain() throws {
        var random = SeededRandom(seed: 45)
        let index = try ReduceTests.NumberIndex(nodeBytes: 512, count: 5_000, &random)
        let slot = PartialStore()
        let tree = index.model.tree
        let first = try run(CustomReduce(tree, KeyRange(), partials: slot), index, slot)
        #expect(first.rows == index.model.entries.count)
        let second = try run(CustomReduce(tree, KeyRange(), partials: slot), index, slot)
        #expect(second.rows == 0)
        #expect(first.groups.map(\.result) == second.groups.map(\.result))
    }

    @Test(arguments: [(256, 800, 51), (4_036, 2_000, 52)])
    func customGroupReductionsEqualEvaluation(nodeBytes: Int, count: Int, seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var index = try ReduceTests.NumberIndex(nodeBytes: nodeBytes, count: count, &random)
        let slot = PartialStore()
        for round in 0..<60 {
            let keys = index.model.sortedKeys
            let range = WalkTests.range(keys, &random)
            var settings = GroupWalk.Settings { key, level in min(level, key.count) }
            settings.isDescending = random.below(2) == 0
            settings.mask = random.below(3) == 0 ? WalkTests.mask(&random) : nil
            settings.level = random.below(5)
            let (level, mask) = (settings.level, settings.mask)
            let rows = keys.filter { index.matches($0, range, mask) }
            let groups = Dictionary(grouping: rows) { Array($0.prefix(level)) }
            var prefixes = groups.keys.sorted { $0.lexicographicallyPrecedes($1) }
            if settings.isDescending { prefixes.reverse() }
            let reduce = CustomReduce(index.model.tree, range, groups: settings, partials: slot)
            let found = try run(reduce, index, slot).groups
            let isOrdered = found.map(\.prefix) == prefixes
            try #require(isOrdered, "seed \(seed), round \(round)")
            for group in found {
                let isEqual = group.result == expected(groups[group.prefix] ?? [], index)
                try #require(isEqual, "seed \(seed), round \(round)")
            }
            if round % 10 == 0 { try index.change(&random) }
        }
    }
}
