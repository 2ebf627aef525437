import Bytes
import Indexing
import TestSupport
import Testing
import Vocabulary

/// The trees that a first build makes of runs, against those that commits make of the same changes.
@Suite struct BulkLoadTests {
    struct Case: Sendable {
        let seed: UInt64
        let nodeBytes: Int
        let ids: Int
        let changes: Int
        /// Bytes of a run, of runs in memory, and of a step of the merge.
        let sizes: (run: Int, memory: Int, step: Int)
        let longestValue: Int
    }

    static let cases = [
        Case(seed: 1, nodeBytes: 256, ids: 50, changes: 0, sizes: (1, 1, 1), longestValue: 9),
        Case(seed: 2, nodeBytes: 256, ids: 40, changes: 300, sizes: (1, 1, 1), longestValue: 90),
        Case(
            seed: 3,
            nodeBytes: 256,
            ids: 300,
            changes: 900,
            sizes: (2_000, 8_000, 700),
            longestValue: 900
        ),
        Case(
            seed: 4,
            nodeBytes: 512,
            ids: 2_000,
            changes: 2_500,
            sizes: (9_000, 30_000, 5_000),
            longestValue: 300
        ),
        Case(
            seed: 5,
            nodeBytes: 4_036,
            ids: 1_000,
            changes: 5_000,
            sizes: (40_000, 1 << 20, 100_000),
            longestValue: 100_000
        ),
        Case(
            seed: 6,
            nodeBytes: 4_036,
            ids: 3_000,
            changes: 3_000,
            sizes: (2 << 20, 32 << 20, 1 << 20),
            longestValue: 90
        ),
    ]

    private func limits(_ each: Case) -> BulkLoad.Limits {
        var limits = BulkLoad.Limits()
        limits.runBytesMax = each.sizes.run
        limits.memoryBytesMax = each.sizes.memory
        return limits
    }

    /// The index that commits make of the newest changes.
    private func edited(_ history: RandomHistory, _ format: NodeFormat) throws -> MemoryIndex {
        let index = MemoryIndex(format)
        var batch: [MappedChange] = []
        var ids: Set<[UInt8]> = []
        for change in history.changes {
            if batch.count == 60 || ids.contains(change.id) {
                try index.apply(batch)
                batch = []
                ids = []
            }
            batch.append(change)
            ids.insert(change.id)
        }
        try index.apply(batch)
        return index
    }

    private func expectEqual(
        _ loaded: MemoryIndex,
        _ edited: MemoryIndex,
        _ random: inout SeededRandom,
        seed: UInt64
    ) throws {
        let problems = try loaded.violations()
        try #require(problems == [], "seed \(seed)")
        #expect(try loaded.entries(loaded.rows) == edited.entries(edited.rows), "seed \(seed)")
        #expect(
            try loaded.entries(loaded.documents) == edited.entries(edited.documents),
            "seed \(seed)"
        )
        #expect(
            loaded.rowCounts.filter { $0.value > 0 } == edited.rowCounts.filter { $0.value > 0 },
            "seed \(seed)"
        )
        // Reductions with stored results, of the whole tree and of ranges.
        let slot = PartialStore()
        let fill = NumericSlotFill()
        while try !fill.step(
            loaded.rows,
            slot,
            readsMax: NumericSlotFill.readsMin,
            store: { slot.tables[$0] = $1.bytes }
        ) {}
        let check = try SlotCheck.runNumeric(loaded.rows, slot)
        #expect(check.missing == 0 && check.wrong.isEmpty, "seed \(seed)")
        let keys = try loaded.entries(loaded.rows).map { $0[0] }
        for round in 0..<20 {
            var range = KeyRange()
            if round > 0, !keys.isEmpty {
                range.start = keys[random.below(keys.count)]
                range.end = keys[random.below(keys.count)]
            }
            let ours = try loaded.rows.reduceNumbers(range, partials: slot)
            let theirs = try edited.rows.reduceNumbers(range, partials: nil)
            #expect(ours.count == theirs.count, "seed \(seed)")
            #expect(ours == theirs, "seed \(seed)")
        }
    }

    @Test(arguments: cases)
    func treesOfBulkLoadEqualThoseOfCommits(_ each: Case) throws {
        let format = NodeFormat(bodyBytesMax: each.nodeBytes)
        var history = RandomHistory(
            seed: each.seed,
            ids: each.ids,
            longestValue: each.longestValue
        )
        for _ in 0..<each.changes { history.change() }
        let model = LoadModel(limits(each), format)
        var rest = history.changes[...]
        while !rest.isEmpty {
            let count = 1 + history.random.below(100)
            model.add(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
            if history.random.below(3) > 0 { model.store() }
        }
        #expect(model.load.isEmpty == (each.changes == 0))
        let loaded = try model.finish(bytesMax: each.sizes.step)
        let edited = try edited(history, format)
        try expectEqual(loaded, edited, &history.random, seed: each.seed)
        // It is edited like any other.
        for _ in 0..<100 { history.change() }
        for change in history.changes.suffix(100) {
            try loaded.apply([change])
            try edited.apply([change])
        }
        try expectEqual(loaded, edited, &history.random, seed: each.seed)
    }

    /// The load begins again at the stored runs, however often it is interrupted.
    @Test(arguments: 20..<40)
    func treesOfInterruptedBulkLoadEqualThoseOfCommits(_ seed: UInt64) throws {
        var history = RandomHistory(seed: seed, ids: 200)
        for _ in 0..<1_000 { history.change() }
        var limits = BulkLoad.Limits()
        limits.runBytesMax = 1_500
        limits.memoryBytesMax = seed % 2 == 0 ? 1 : 5_000
        let model = LoadModel(limits)
        var positions: [VBucketID: UInt64] = [:]
        var crashes = 0
        while true {
            let next = history.changes.filter { $0.seqno > positions[$0.vBucket, default: 0] }
            guard !next.isEmpty else { break }
            // As feeds do, vBucket by vBucket in any order.
            let vBucket = next[history.random.below(next.count)].vBucket
            let batch = next.filter { $0.vBucket == vBucket }
                .prefix(1 + history.random.below(60))
            model.add(Array(batch))
            positions[vBucket] = batch.last?.seqno
            model.store()
            if crashes < 12, history.random.below(4) == 0 {
                crashes += 1
                positions = model.crash().mapValues { $0.seqno.value }
            }
        }
        #expect(crashes > 0 && model.storedRuns > 0)
        let loaded = try model.finish(bytesMax: 4_000)
        let expected = try edited(history, .standard)
        try expectEqual(loaded, expected, &history.random, seed: seed)
    }

    /// What was read of a feed that is closed does not count, unless it is stored.
    @Test(arguments: 50..<60)
    func onlyStoredChangesOfClosedFeedCount(_ seed: UInt64) throws {
        var history = RandomHistory(seed: seed, ids: 100)
        for _ in 0..<600 { history.change() }
        var limits = BulkLoad.Limits()
        limits.runBytesMax = 1_000
        limits.memoryBytesMax = seed % 2 == 0 ? 4_000 : 1 << 20
        let model = LoadModel(limits)
        var rest = history.changes[...]
        while !rest.isEmpty {
            let batch = Array(rest.prefix(40))
            rest = rest.dropFirst(40)
            model.add(batch)
            model.store()
        }
        let closed = VBucketID(UInt16(history.random.below(5) * 100))
        model.load.discard(closed)
        let kept = model.load.positions[closed]?.seqno.value ?? 0
        let expected = MemoryIndex()
        for change in history.changes where change.vBucket != closed || change.seqno <= kept {
            try expected.apply([change])
        }
        let loaded = try model.finish(bytesMax: 10_000)
        try expectEqual(loaded, expected, &history.random, seed: seed)
        #expect(seed % 2 == 0 || kept == 0)
    }

    // MARK: When runs are stored

    private func change(_ seqno: UInt64) -> MappedChange {
        MappedChange(
            vBucket: VBucketID(1),
            id: Array("d\(seqno)".utf8),
            seqno: seqno,
            rows: [(key: [0x18], value: Array("1".utf8))]
        )
    }

    @Test func runIsStoredWhenItsTimeIsOverDespiteRoom() {
        let load = BulkLoad(now: 0)
        let position = IndexPosition(
            uuid: VBucketUUID(1),
            seqno: Seqno(1),
            snapshotStart: Seqno(1),
            snapshotEnd: Seqno(1)
        )
        load.move(VBucketID(1), to: position, now: 10)
        load.endBatch(now: 10)
        let due = 10 + BulkLoad.Limits().storeAfterNanoseconds
        #expect(load.storeAt == due)
        #expect(load.runToStore(now: due - 1) == nil)
        let run = load.runToStore(now: due)
        #expect(run.map { load.positions(after: $0) } == [VBucketID(1): position])
        load.stored()
        #expect(load.storedPositions == [VBucketID(1): position])
        #expect(load.runToStore(now: .max - due) == nil && load.storeAt == nil)
    }

    @Test func fullLoadHasRoomAfterARunIsStored() {
        var limits = BulkLoad.Limits()
        limits.runBytesMax = 100
        limits.memoryBytesMax = 1_000
        let model = LoadModel(limits)
        var seqno: UInt64 = 0
        while model.load.hasRoom, seqno < 1_000 {
            seqno += 1
            model.add([change(seqno)])
        }
        #expect(seqno < 1_000)
        #expect(model.store() > 0)
        #expect(model.load.hasRoom)
    }

    @Test func mergeOfADamagedRunFails() throws {
        let load = BulkLoad(storedRuns: 1, now: 0)
        let merge = load.merge(TreeNumbers())
        #expect(throws: IndexError.self) {
            try merge.step(
                bytesMax: 1_000,
                read: { (chunk, output) throws(IndexError) in
                    output.append([0xff, 0xff])
                    return chunk.number == 0
                },
                storeValue: { _, _ in }
            )
        }
    }

    @Test func positionsAreDecodedAsTheyWereEncoded() {
        var random = SeededRandom(seed: 80)
        var positions: [VBucketID: IndexPosition] = [:]
        for number in 0..<100 {
            positions[VBucketID(UInt16(number * 7))] = IndexPosition(
                uuid: VBucketUUID(random.next()),
                seqno: Seqno(random.next()),
                snapshotStart: Seqno(random.next()),
                snapshotEnd: Seqno(random.next())
            )
        }
        let text = ByteWriter()
        LoadPositions.append(positions, to: text)
        #expect(LoadPositions.decode(text.view) == positions)
        #expect(LoadPositions.decode(text.view.dropFirst(1)) == nil)
    }
}
