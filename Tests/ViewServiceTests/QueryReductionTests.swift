import Bytes
import Foundation
import Indexing
import Persistence
import Seams
import TestSupport
import Testing
import ViewService
import Vocabulary

/// Reductions and groups on one node, compared with a plain evaluation.
@Suite(.serialized) struct QueryReductionTests {
    private let world = ResponderWorld()

    /// A row of the view: the key is an array of small numbers.
    private struct Row {
        let key: [Int]
        let value: Int
        let vBucket: VBucketID
    }

    /// Groups of the first level have more than a thousand rows, so that they span several leaves.
    private static let rows: [Row] = (0..<3_000).map { number in
        Row(
            key: [number % 2, number % 7 % 3, number % 5],
            value: number % 90 - 20,
            vBucket: VBucketID(ofKey: Array("k\(number)".utf8), count: MemoryChanges.vBuckets.count)
        )
    }
    .sorted { $0.key.lexicographicallyPrecedes($1.key) }

    private func makeIndex() throws {
        for number in 0..<3_000 { world.world.changes.put("k\(number)", "{\"n\":\(number)}") }
        let index = try world.index(
            "function (doc) { var n = doc.n; emit([n % 2, n % 7 % 3, n % 5], n % 90 - 20); }"
        )
        try world.world.awaitFresh(index)
    }

    /// Queries with the rows that they select.
    private static let queries: [(String, [VBucketID], @Sendable (Row) -> Bool)] = [
        ("", MemoryChanges.vBuckets, { _ in true }),
        (
            "startkey=[0,1]&endkey=[1,0,3]", MemoryChanges.vBuckets,
            { row in
                !row.key.lexicographicallyPrecedes([0, 1])
                    && !([1, 0, 3]).lexicographicallyPrecedes(row.key)
            }
        ), ("", [VBucketID(0), VBucketID(3)], { _ in true }),
        (
            "startkey=[1]&stale=ok", [VBucketID(2)],
            { row in !row.key.lexicographicallyPrecedes([1]) }
        ), ("startkey=[7]", MemoryChanges.vBuckets, { _ in false }),
    ]

    /// The groups of a query by a plain loop.
    private static func expected(
        _ query: (String, [VBucketID], @Sendable (Row) -> Bool),
        level: Int?,
        isDescending: Bool = false,
        _ reduce: ([Row]) -> String
    ) -> [String] {
        let selected = rows.filter { query.1.contains($0.vBucket) && query.2($0) }
        var groups: [(key: [Int], rows: [Row])] = []
        for row in selected {
            let key = level == 0 ? [] : Array(row.key.prefix(level ?? .max))
            if groups.last?.key != key { groups.append((key, [])) }
            groups[groups.count - 1].rows.append(row)
        }
        if isDescending { groups.reverse() }
        return groups.map { group in
            let key = "[\(group.key.map(String.init).joined(separator: ","))]"
            return "\(level == 0 ? "all" : key) \(reduce(group.rows))"
        }
    }

    private static func result(_ reduction: BuiltinReduction, _ rows: [Row]) -> String {
        let values = rows.map(\.value)
        let sum = values.reduce(0, +)
        switch reduction {
        case .count: return "\(values.count)"
        case .sum: return "\(sum)"
        case .stats:
            let squares = values.reduce(0) { $0 + $1 * $1 }
            return "{\"sum\":\(sum),\"count\":\(values.count),\"min\":\(values.min() ?? 0),"
                + "\"max\":\(values.max() ?? 0),\"sumsqr\":\(squares)}"
        }
    }

    private static let levels: [(String, Int?)] = [
        ("", 0), ("group_level=1", 1), ("group_level=2", 2), ("group_level=3", 3),
        ("group_level=9", 9), ("group=true", nil),
    ]

    @Test func builtinReductionsEqualPlainEvaluationOnEveryLevel() throws {
        defer { world.stop() }
        try makeIndex()
        for reduction in BuiltinReduction.allCases {
            world.reduce(reduction.rawValue)
            for query in Self.queries {
                for (group, level) in Self.levels {
                    let text = [query.0, group].filter { !$0.isEmpty }.joined(separator: "&")
                    let replies = try world.ask(text, ResponderWorld.Ask(vBuckets: query.1))
                    #expect(
                        replies.groups(reduction)
                            == Self.expected(query, level: level) { Self.result(reduction, $0) },
                        "\(reduction) \(text)"
                    )
                    #expect(replies.last == .end)
                }
            }
        }
    }

    @Test func descendingGroupsAreReversedAndLimited() throws {
        defer { world.stop() }
        try makeIndex()
        world.reduce("_sum")
        let all = Self.expected(Self.queries[0], level: 2, isDescending: true) {
            Self.result(.sum, $0)
        }
        let query = "group_level=2&descending=true"
        #expect(try world.ask(query).groups(.sum) == all)
        #expect(try world.ask(query + "&limit=2&skip=1").groups(.sum) == Array(all.prefix(3)))
    }

    @Test func groupsOfKeysAreNumbered() throws {
        defer { world.stop() }
        try makeIndex()
        world.reduce("_count")
        let replies = try world.ask("group=true&keys=[[1,2,3],[9],[0,0,0],[1,2,3]]")
        let count = { (key: [Int]) in Self.rows.count { $0.key == key } }
        #expect(
            replies.groups(.count, numbered: true) == [
                "0: [1,2,3] \(count([1, 2, 3]))", "2: [0,0,0] \(count([0, 0, 0]))",
                "3: [1,2,3] \(count([1, 2, 3]))",
            ]
        )
    }

    /// The keys of groups are those of shorter arrays and of values that are no arrays, too.
    @Test func groupOfAnotherValueHasItsOwnKey() throws {
        defer { world.stop() }
        for (number, key) in ["null", "7", "\"a\"", "[]", "[1]", "[1,2]", "[1,3]", "{\"a\":1}"]
            .enumerated()
        {
            world.world.changes.put("k\(number)", "{\"key\":\(key)}")
        }
        try world.world.awaitFresh(try world.index("function (doc) { emit(doc.key, 1); }"))
        world.reduce("_count")
        #expect(
            try world.ask("group_level=1&stale=false").groups(.count) == [
                "null 1", "7 1", "\"a\" 1", "[] 1", "[1] 3", "{\"a\":1} 1",
            ]
        )
    }

    /// The coordinator refuses the value, since one slot is for two reductions.
    @Test func valueThatIsNoNumberFailsOnlyItsGroups() throws {
        defer { world.stop() }
        world.world.changes.put("a", #"{"n":1,"v":5}"#)
        world.world.changes.put("b", #"{"n":2,"v":"x"}"#)
        try world.world.awaitFresh(try world.index("function (doc) { emit(doc.n, doc.v); }"))
        world.reduce("_sum")
        #expect(try world.ask("").groups(.sum) == ["all none"])
        #expect(try world.ask("group=true").groups(.sum) == ["1 5", "2 none"])
        #expect(try world.ask("endkey=1").groups(.sum) == ["all 5"])
        #expect(try world.ask("").groups(.stats) == ["all none"])
        world.reduce("_count")
        #expect(try world.ask("").groups(.count) == ["all 2"])
    }

    // MARK: Functions of authors

    /// Depends on the order of rows: the first and the last value, and their number.
    private static let order = """
        function (keys, values, rereduce) {
          if (!rereduce) return [keys[0], keys[keys.length - 1], sum(values)];
          return [
            values[0][0], values[values.length - 1][1],
            sum(values.map(function (value) { return value[2]; }))
          ];
        }
        """

    private static func orderOf(_ rows: [Row]) -> String {
        let text = { (row: Row?) in (row?.key ?? []).map(String.init).joined(separator: ",") }
        let sum = rows.reduce(0) { $0 + $1.value }
        return "[[\(text(rows.first))],[\(text(rows.last))],\(sum)]"
    }

    @Test func customReductionEqualsPlainEvaluationOnEveryLevel() throws {
        defer { world.stop() }
        try makeIndex()
        world.reduce(Self.order)
        for query in Self.queries {
            for (group, level) in Self.levels {
                let text = [query.0, group].filter { !$0.isEmpty }.joined(separator: "&")
                let replies = try world.ask(text, ResponderWorld.Ask(vBuckets: query.1))
                #expect(
                    replies.groups() == Self.expected(query, level: level, Self.orderOf),
                    "\(text)"
                )
                #expect(replies.last == .end)
            }
        }
        let replies = try world.ask("group_level=2&descending=true&limit=4")
        let all = Self.expected(
            Self.queries[0],
            level: 2,
            isDescending: true,
            Self.orderOf
        )
        #expect(replies.groups() == Array(all.prefix(4)))
    }

    @Test func failingFunctionFailsTheQueryWithItsLine() throws {
        defer { world.stop() }
        try makeIndex()
        world.reduce("function (keys, values) {\n  return values.missing.x;\n}")
        guard case .failed(let reason)? = try world.ask("").last else {
            Issue.record("the query did not fail")
            return
        }
        #expect(reason.hasPrefix("The reduce function failed in line 2: "))
        #expect(reason.contains("TypeError"))
        #expect(world.responder.queryCount == 0)
    }

    @Test func cancelledReductionSendsNothingAfterItsStart() throws {
        defer { world.stop() }
        try makeIndex()
        world.reduce("function (keys, values) { for (;;) {} }")
        let replies = try world.begin("")
        try waitUntil("the query has started") { replies.start != nil }
        replies.cancel()
        try waitUntil("the query is over") { world.responder.queryCount == 0 }
        #expect(replies.all.count == 1)
    }
}
