import Bytes
import Indexing
import Testing

@Suite struct QueryPlanTests {
    static func plan(_ query: String, hasReduce: Bool = false) throws -> QueryPlan {
        QueryPlan(try ViewQueryTests.parse(query, hasReduce: hasReduce))
    }

    @Test(
        arguments: [
            ("", false, .none, false), ("keys=[1]", false, .none, true), ("", true, .all, false),
            ("group_level=0", true, .all, false), ("group=true", true, .groups(level: nil), false),
            ("group=true&keys=[1]", true, .groups(level: nil), true),
            ("reduce=false&key=1", true, .none, false),
        ] as [(String, Bool, ViewQuery.Reduction, Bool)]
    )
    func scanHasReductionAndKeysOfItsQuery(
        query: String,
        hasReduce: Bool,
        reduction: ViewQuery.Reduction,
        hasKeys: Bool
    ) throws {
        let scan = try Self.plan(query, hasReduce: hasReduce).scan
        #expect(scan.reduction == reduction && scan.hasKeys == hasKeys)
    }

    @Test(arguments: [
        ("", nil), ("limit=5", 5), ("limit=5&skip=7", 12), ("skip=7", nil), ("limit=0&skip=7", 0),
        ("limit=9223372036854775807&skip=1", Int.max),
    ]) func responderStopsAfterSkipAndLimit(query: String, rowsMax: Int?) throws {
        let plan = try Self.plan(query)
        #expect(plan.scan.rowsMax == rowsMax)
        let parsed = try ViewQueryTests.parse(query)
        #expect(plan.merge.skip == parsed.skip && plan.merge.limit == parsed.limit)
    }

    @Test func keysBecomeRangesInTheirOrder() throws {
        let scan = try Self.plan("keys=[2,1,2]&descending=true").scan
        #expect(scan.ranges.count == 3 && scan.hasKeys && scan.isDescending)
        #expect(scan.ranges[0] == scan.ranges[2])
        for (range, key) in zip(scan.ranges, ["2", "1", "2"]) {
            for other in ["0", "1", "2", "3"] {
                #expect(range.contains(StandInKeys.rowKey(other, id: "d")) == (key == other))
            }
        }
        let empty = try Self.plan("keys=[]").scan
        #expect(empty.ranges.isEmpty && empty.hasKeys)
    }

    @Test func reversedDocumentIDsMakeAnEmptyRange() throws {
        let scan = try Self.plan("key=1&startkey_docid=b&endkey_docid=a").scan
        #expect(scan.ranges.map(\.isEmpty) == [true])
        #expect(!(try Self.plan("key=1&startkey_docid=a&endkey_docid=a").scan.ranges[0].isEmpty))
    }

    /// Byte ranges select what the words of the contract select, also of IDs with 00, 01 and FF.
    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func rangeHasExactlyTheSelectedRows(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let keys = ["null", "1", "2", "-1", "\"a\"", "\"ab\"", "[]", "[1]", "[1,\"a\"]"]
            .map { StandInKeys.encode($0) }
        let ids: [[UInt8]] = [
            [], [0], [0, 0], [0, 1], [1], [1, 1], [2], [0x61], [0x61, 0], [0x61, 0x62], [0xff],
            [0xff, 0xff, 0xff, 0xff], [0xff, 0],
        ]
        for _ in 0..<200 {
            var selection = ViewQuery.RowSelection()
            func oneOf(_ values: [[UInt8]]) -> [UInt8]? {
                Int.random(in: 0..<4, using: &random) == 0
                    ? nil : values.randomElement(using: &random)
            }
            selection.startKey = oneOf(keys)
            selection.endKey = oneOf(keys)
            selection.startDocumentID = oneOf(ids)
            selection.endDocumentID = oneOf(ids)
            selection.includesEnd = Bool.random(using: &random)
            let isDescending = Bool.random(using: &random)
            let range = RowRange(selection, isDescending: isDescending)
            for key in keys {
                for id in ids {
                    let row = StandInKeys.rowKey(key, id: id, ordinal: .random(in: 0...0xffff))
                    let isSelected = selects(selection, isDescending, key, id)
                    if range.contains(row) == isSelected { continue }
                    Issue.record("seed \(seed): \(selection) \(isDescending) \(key) \(id)")
                }
            }
        }
    }

    /// The contract's words: from the start to the end, in the direction of the query.
    private func selects(
        _ selection: ViewQuery.RowSelection,
        _ isDescending: Bool,
        _ key: [UInt8],
        _ id: [UInt8]
    ) -> Bool {
        /// Whether the first one is before the second one in the query's direction.
        func isBefore(_ one: [UInt8], _ other: [UInt8]) -> Bool {
            isDescending
                ? other.lexicographicallyPrecedes(one) : one.lexicographicallyPrecedes(other)
        }
        if let start = selection.startKey {
            if isBefore(key, start) { return false }
            if key == start, let first = selection.startDocumentID, isBefore(id, first) {
                return false
            }
        }
        guard let end = selection.endKey else { return true }
        if isBefore(end, key) { return false }
        guard key == end else { return true }
        guard let last = selection.endDocumentID else { return selection.includesEnd }
        return selection.includesEnd ? !isBefore(last, id) : isBefore(id, last)
    }
}
