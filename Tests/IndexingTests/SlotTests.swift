import Bytes
import Indexing
import TestSupport
import Testing
import Vocabulary

/// Slots of a tree that is edited: which results are stored, and what is used of them.
@Suite struct SlotTests {
    /// Fails when it is asked for a result.
    private final class ForbiddenPartials: PartialSource {
        func partials(of node: IndexNodeID) throws(IndexError) -> PartialTable? {
            throw .unreadable("a stored result was used")
        }
    }

    private func check(_ index: ReduceTests.NumberIndex) throws -> SlotCheck {
        try SlotCheck.runNumeric(index.model.tree, index.slot)
    }

    @Test(arguments: [(256, 900, 61), (256, 3_000, 62), (512, 4_000, 63), (4_036, 9_000, 64)])
    func slotAddedToATreeIsFilledWhileTheTreeIsEdited(
        nodeBytes: Int,
        count: Int,
        seed: UInt64
    ) throws {
        var random = SeededRandom(seed: seed)
        var index = try ReduceTests.NumberIndex(nodeBytes: nodeBytes, count: count, &random)
        // The slot was added, or a part of its tables was removed before it was wanted again.
        for node in index.slot.tables.keys.sorted() where seed % 2 == 1 || random.below(2) == 0 {
            index.slot.tables[node] = nil
        }
        var steps = 0
        var fill = NumericSlotFill()
        while true {
            let slot = index.slot
            let before = index.model.store.reads
            let isFilled = try fill.step(
                index.model.tree,
                slot,
                readsMax: NumericSlotFill.readsMin,
                store: { slot.tables[$0] = $1.bytes }
            )
            steps += 1
            #expect(index.model.store.reads - before <= NumericSlotFill.readsMin + 1)
            let found = try check(index)
            try #require(found.wrong.isEmpty, "seed \(seed), step \(steps)")
            if isFilled, found.missing == 0 { break }
            // As the service does after an edit that left results out.
            if isFilled { fill = NumericSlotFill() }
            try #require(steps < 500, "seed \(seed): the fill does not end")
            if steps < 100 { try index.change(&random) }
        }
        #expect(nodeBytes > 512 || steps > 1)
        for _ in 0..<10 {
            try index.change(&random)
            let found = try check(index)
            try #require(found.missing == 0 && found.wrong.isEmpty, "seed \(seed)")
        }
    }

    @Test func editOfATreeWithoutTablesReadsAFewNodes() throws {
        var random = SeededRandom(seed: 65)
        var index = try ReduceTests.NumberIndex(nodeBytes: 256, count: 6_000, &random)
        index.slot.tables = [:]
        let before = index.model.tree
        let key = index.model.sortedKeys[3_000]
        let edit = try index.model.apply([(key, nil)])
        let reads = index.model.store.reads
        let update = NumericSlotUpdate(before, partials: index.slot, readsMax: 5)
        try update.process(edit.writes, bigValues: { _ in nil }, store: { _, _ in })
        #expect(index.model.store.reads - reads == 5)
        #expect(!update.isComplete)
    }

    @Test func resultThatIsTooLargeIsComputedFromRowsAndTheFillEnds() throws {
        var random = SeededRandom(seed: 66)
        var index = try ReduceTests.NumberIndex(nodeBytes: 512, count: 500, &random)
        let array = "[" + (0..<90).map { "\($0)" }.joined(separator: ",") + "]"
        try index.apply(
            index.model.sortedKeys.prefix(100).map { key in
                (key, ModelEntry(vBucket: 1, value: Array(array.utf8)))
            }
        )
        let found = try check(index)
        #expect(found.missing == 0 && found.wrong.isEmpty)
        #expect(index.slot.tables.values.allSatisfy { $0.count < 64 << 10 })
        let sum = try index.model.tree.reduceNumbers(partials: index.slot)
        let expected = index.expected(index.model.sortedKeys)
        #expect(ReduceTests.texts(sum) == ReduceTests.texts(expected))
        var stored = 0
        let isFilled = try NumericSlotFill().step(
            index.model.tree,
            index.slot,
            readsMax: 1_000,
            store: { _, _ in stored += 1 }
        )
        #expect(isFilled && stored == 0)
    }

    @Test func storedResultIsNeverUsedWithAMask() throws {
        var random = SeededRandom(seed: 67)
        let index = try ReduceTests.NumberIndex(nodeBytes: 256, count: 2_000, &random)
        let tree = index.model.tree
        let mask = WalkTests.mask(&random)
        var settings = GroupWalk.Settings { key, level in min(level, key.count) }
        settings.mask = mask
        for reduce in [
            CustomReduce(tree, KeyRange(), mask: mask, partials: ForbiddenPartials()),
            CustomReduce(tree, KeyRange(), groups: settings, partials: ForbiddenPartials()),
        ] {
            try finish(reduce)
            #expect(reduce.computed.isEmpty)
        }
        #expect(throws: IndexError.self) {
            try tree.reduceNumbers(partials: ForbiddenPartials())
        }
    }

    /// A query of vBuckets without rows reads everything; other queries have turns meanwhile.
    @Test(arguments: [false, true])
    func maskedReductionWithoutRowsPauses(_ isGrouped: Bool) throws {
        var random = SeededRandom(seed: 69)
        let index = try ReduceTests.NumberIndex(nodeBytes: 256, count: 4_000, &random)
        let tree = index.model.tree
        let mask = VBucketMask()
        var settings = GroupWalk.Settings { key, _ in key.count }
        settings.mask = mask
        let reduce =
            isGrouped
            ? CustomReduce(tree, KeyRange(), groups: settings, partials: ForbiddenPartials())
            : CustomReduce(tree, KeyRange(), mask: mask, partials: ForbiddenPartials())
        var pauses = 0
        while case .paused = try reduce.next(readsMax: 4) { pauses += 1 }
        #expect(pauses >= 10)
        guard case .done = try reduce.next(readsMax: 4) else {
            Issue.record("there is no group")
            return
        }
    }

    private func finish(_ reduce: CustomReduce) throws {
        while true {
            switch try reduce.next() {
            case .paused: Issue.record("the reads are not limited")
            case .done: return
            case .group: continue
            case .needs(let calls): reduce.supply(calls.map { _ in [0x30] })
            }
        }
    }

    @Test func customResultOfAChangedNodeIsNotStored() throws {
        var random = SeededRandom(seed: 68)
        var index = try ReduceTests.NumberIndex(nodeBytes: 256, count: 2_000, &random)
        let slot = PartialStore()
        let reduce = CustomReduce(index.model.tree, KeyRange(), partials: slot)
        try finish(reduce)
        let computed = reduce.computed
        #expect(!computed.isEmpty)
        // Every leaf changes, or is freed.
        try index.apply(
            index.model.sortedKeys.enumerated().map { place, key in
                let isKept = place % 3 == 0
                return (key, isKept ? ModelEntry(vBucket: 1, value: Array("\(place)".utf8)) : nil)
            }
        )
        let store = index.model.store
        var stored = 0
        try CustomSlotUpdate.process(
            computed,
            slot,
            node: { (id) throws(IndexError) in
                store.bodies[id] == nil ? nil : try store.node(id)
            },
            store: { _, _ in stored += 1 }
        )
        #expect(stored == 0)
    }

    @Test func customResultsAreMergedIntoTheTableOfTheirParent() throws {
        var random = SeededRandom(seed: 69)
        let index = try ReduceTests.NumberIndex(nodeBytes: 256, count: 2_000, &random)
        let slot = PartialStore()
        let reduce = CustomReduce(index.model.tree, KeyRange(), partials: slot)
        try finish(reduce)
        var rest = reduce.computed
        rest.shuffle(using: &random)
        var stored = 0
        while !rest.isEmpty {
            let part = Array(rest.prefix(7))
            rest.removeFirst(part.count)
            try CustomSlotUpdate.process(
                part,
                slot,
                node: { (id) throws(IndexError) in try index.model.store.node(id) },
                store: {
                    slot.tables[$0] = $1.bytes
                    stored += 1
                }
            )
        }
        let found = try SlotCheck.run(index.model.tree, slot) { _, result in
            result.bytes == [0x30]
        }
        #expect(found.missing == 0 && found.wrong.isEmpty && stored > 1)
    }
}
