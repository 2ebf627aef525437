import Bytes
import Indexing
import Testing

@Suite struct RowMergeTests {
    /// Feeds streams as a service does, within their credit, in random order.
    struct Feeder {
        var merge: RowMerge
        var waiting: [[RowBatch]]
        var credits: [Int]
        var isEnded: [Bool]
        var random: SeededRandom

        init(_ streams: [[RowBatch]], _ plan: MergePlan, _ random: SeededRandom) {
            merge = RowMerge(streams: streams.count, plan: plan)
            waiting = streams
            credits = streams.map { _ in RowMerge.creditMax }
            isEnded = streams.map { _ in false }
            self.random = random
        }

        /// Feeds one stream, or ends it; false if no stream can be fed.
        mutating func feedOne() -> Bool {
            for stream in merge.removeCredits() { credits[stream] += 1 }
            let ready = waiting.indices.filter {
                !isEnded[$0] && (waiting[$0].isEmpty || credits[$0] > 0)
            }
            guard let stream = ready.randomElement(using: &random) else { return false }
            if waiting[stream].isEmpty {
                merge.finish(stream)
                isEnded[stream] = true
            } else {
                let outcome = merge.feed(stream, waiting[stream].removeFirst())
                #expect(outcome == .accepted)
                credits[stream] -= 1
            }
            return true
        }

        /// All rows; a group as its first row and the values of all.
        mutating func readAll() -> [[TestRow]] {
            var found: [[TestRow]] = []
            for _ in 0..<1_000_000 {
                // Sometimes ahead of what is needed.
                if Int.random(in: 0..<4, using: &random) == 0 { _ = feedOne() }
                switch merge.next() {
                case .row(let row): found.append([TestRow(row)])
                case .group(let rows): found.append(rows.map { TestRow($0) })
                case .needsMore(let streams):
                    #expect(streams.allSatisfy { !isEnded[$0] } && !streams.isEmpty)
                    guard feedOne() else {
                        Issue.record("the merge needs rows, and no stream has credit")
                        return found
                    }
                case .done: return found
                }
            }
            return found
        }
    }

    /// Rows in batches of random sizes.
    static func batches(_ rows: [TestRow], _ random: inout SeededRandom) throws -> [RowBatch] {
        var batches: [RowBatch] = []
        var rest = rows[...]
        while !rest.isEmpty {
            let count = Int.random(in: 0...4, using: &random)
            batches.append(try RowBatch.of(Array(rest.prefix(count))))
            rest = rest.dropFirst(count)
        }
        return batches
    }

    static func sorted(_ rows: [TestRow], isDescending: Bool) -> [TestRow] {
        rows.sorted { one, other in
            if one.keyNumber != other.keyNumber { return one.keyNumber < other.keyNumber }
            return isDescending ? other < one : one < other
        }
    }

    /// Merging streams gives what sorting all their rows gives, for every parameter.
    @Test(arguments: 1...60 as ClosedRange<UInt64>)
    func mergeOfStreamsIsOneSortedList(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        for _ in 0..<10 {
            let streamCount = Int.random(in: 1...9, using: &random)
            let keyCount = Int.random(in: 1...3, using: &random)
            var plan = MergePlan(isDescending: .random(using: &random))
            if Bool.random(using: &random) { plan.skip = .random(in: 0...20, using: &random) }
            if Bool.random(using: &random) { plan.limit = .random(in: 0...40, using: &random) }
            var all: [TestRow] = []
            var streams: [[TestRow]] = Array(repeating: [], count: streamCount)
            for number in 0..<Int.random(in: 0...120, using: &random) {
                let json = ["1", "2", "\"a\"", "[1]", "null"].randomElement(using: &random) ?? "1"
                let key = StandInKeys.rowKey(json, id: "d\(number)")
                let keyNumber = Int.random(in: 0..<keyCount, using: &random)
                let row = TestRow(keyNumber: keyNumber, key: key, value: Array("\(number)".utf8))
                all.append(row)
                streams[Int.random(in: 0..<streamCount, using: &random)].append(row)
            }
            let batches = try streams.map { rows in
                try Self.batches(Self.sorted(rows, isDescending: plan.isDescending), &random)
            }
            var feeder = Feeder(batches, plan, random)
            let found = feeder.readAll()
            let expected = Self.sorted(all, isDescending: plan.isDescending)
                .dropFirst(plan.skip).prefix(plan.limit ?? .max)
            #expect(found == expected.map { [$0] }, "seed \(seed): \(plan)")
            random = feeder.random
        }
    }

    /// Every group leaves once, with the partial values of all streams that have it, in their order.
    @Test(arguments: 1...40 as ClosedRange<UInt64>)
    func partialValuesOfAGroupAreReturnedTogether(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        for _ in 0..<10 {
            var plan = MergePlan(isDescending: .random(using: &random), isGrouped: true)
            if Bool.random(using: &random) { plan.skip = .random(in: 0...5, using: &random) }
            if Bool.random(using: &random) { plan.limit = .random(in: 0...8, using: &random) }
            let groups = (0..<12).map {
                TestRow(keyNumber: $0 / 6, key: StandInKeys.encode("\($0)"))
            }
            var byGroup: [[TestRow]] = Array(repeating: [], count: groups.count)
            var streams: [[RowBatch]] = []
            for stream in 0..<Int.random(in: 1...6, using: &random) {
                var rows: [TestRow] = []
                for (number, group) in groups.enumerated() where Bool.random(using: &random) {
                    var row = group
                    row.value = [UInt8(stream)]
                    rows.append(row)
                    byGroup[number].append(row)
                }
                rows = Self.sorted(rows, isDescending: plan.isDescending)
                streams.append(try Self.batches(rows, &random))
            }
            var feeder = Feeder(streams, plan, random)
            let order = Self.sorted(groups, isDescending: plan.isDescending)
            let expected = order.compactMap { group in
                byGroup.first {
                    $0.first?.key == group.key && $0.first?.keyNumber == group.keyNumber
                }
            }
            .dropFirst(plan.skip).prefix(plan.limit ?? .max)
            #expect(feeder.readAll() == Array(expected), "seed \(seed): \(plan)")
            random = feeder.random
        }
    }

    static func batch(_ numbers: Int...) throws -> RowBatch {
        try RowBatch.of(numbers.map { TestRow(key: StandInKeys.rowKey("\($0)", id: "d")) })
    }

    @Test func rowWaitsForEveryStream() throws {
        var merge = RowMerge(streams: 2, plan: MergePlan())
        _ = merge.feed(0, try Self.batch(1, 2))
        guard case .needsMore([1]) = merge.next() else {
            Issue.record("stream 1 could have an earlier row")
            return
        }
        merge.finish(1)
        guard case .row = merge.next(), case .row = merge.next() else {
            Issue.record("stream 0 has two rows")
            return
        }
        #expect(merge.removeCredits() == [0])
        guard case .needsMore([0]) = merge.next() else {
            Issue.record("stream 0 has not ended")
            return
        }
    }

    @Test func batchBeyondCreditOrEndIsUnexpected() throws {
        var merge = RowMerge(streams: 1, plan: MergePlan())
        #expect(merge.feed(0, try Self.batch(1)) == .accepted)
        #expect(merge.feed(0, try Self.batch(2)) == .accepted)
        #expect(merge.feed(0, try Self.batch(3)) == .unexpected)
        merge.finish(0)
        #expect(merge.feed(0, try Self.batch(4)) == .unexpected)
    }

    @Test func failedStreamEndsRowsOnlyIfTheQueryStops() throws {
        for policy in [ViewQuery.FailurePolicy.continueRows, .stopRows] {
            var merge = RowMerge(streams: 2, plan: MergePlan(failurePolicy: policy))
            _ = merge.feed(0, try Self.batch(1))
            _ = merge.feed(1, try Self.batch(2))
            merge.finish(0)
            merge.fail(1)
            var count = 0
            while case .row = merge.next() { count += 1 }
            #expect(count == (policy == .stopRows ? 0 : 2))
        }
    }

    /// Out of order within a batch, between batches, and a row twice.
    @Test(arguments: [[[1, 3, 2]], [[1, 3], [2]], [[1, 1]], [[1], [1]]])
    func streamOutOfOrderFails(numbers: [[Int]]) throws {
        var merge = RowMerge(streams: 2, plan: MergePlan())
        for batch in numbers {
            let rows = batch.map { TestRow(key: StandInKeys.rowKey("\($0)", id: "d")) }
            #expect(merge.feed(0, try RowBatch.of(rows)) == .accepted)
        }
        merge.finish(0)
        _ = merge.feed(1, try Self.batch(9))
        merge.finish(1)
        var last = 0
        while case .row = merge.next() { last += 1 }
        #expect(merge.removeDisordered() == [0])
        #expect(last == Set(numbers.joined()).count - (numbers.joined().contains(3) ? 1 : 0) + 1)
    }
}

extension TestRow {
    init(_ row: MergedRow) { self = row.withRow { TestRow($0) } }
}
