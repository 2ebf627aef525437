import Indexing
import Testing
import ViewService

/// When a query that its client reads slowly ends.
@Suite(.serialized) struct StallRuleTests {
    private let second: UInt64 = 1_000_000_000
    private let large = StallRule.Limits().walPagesMax

    @Test func queryThatReadsIsNotEndedByTheStallRule() {
        let rule = StallRule()
        #expect(!rule.isOver(1_000 * second, walPages: 10 * large))
    }

    @Test func stalledQueryIsEndedOnlyWithALargeWAL() {
        var rule = StallRule()
        rule.stall(5 * second)
        rule.stall(9 * second)
        #expect(!rule.isOver(15 * second - 1, walPages: large))
        #expect(!rule.isOver(1_000 * second, walPages: large - 1))
        #expect(rule.isOver(15 * second, walPages: large))
    }

    /// A client that reads one batch a second keeps the snapshot as one that reads none.
    @Test func stallTimesOfAQueryAreSummed() {
        var rule = StallRule()
        for wait: UInt64 in 0..<10 {
            #expect(!rule.isOver(2 * wait * second, walPages: large))
            rule.stall(2 * wait * second)
            rule.resume((2 * wait + 1) * second)
        }
        #expect(rule.isOver(20 * second, walPages: large))
    }

    @Test func responseWhoseClientDoesNotReadEndsAndStatesWhy() throws {
        let world = ResponderWorld {
            $0.stalledNanosecondsMax = 0
            $0.walPagesMax = 0
        }
        defer { world.stop() }
        let value = String(repeating: "v", count: 2_000)
        for number in 0..<400 { world.world.changes.put("k\(number)", "{\"v\":\"\(value)\"}") }
        let index = try world.index("function (doc, meta) { emit(meta.id, doc.v); }")
        try world.world.awaitFresh(index)
        let replies = try world.ask("stale=ok", ResponderWorld.Ask(addsCredit: false))
        #expect(replies.batches.count == RowMerge.creditMax)
        #expect(replies.last == .failed(StallRule.reason))
    }
}
