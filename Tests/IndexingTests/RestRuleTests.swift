import Indexing
import Testing

/// When an index without work is closed.
@Suite struct RestRuleTests {
    private static let second: UInt64 = 1_000_000_000
    private let limits = RestRule.Limits()

    /// Checks each second from `now` on; returns the seconds until the rule closes the index.
    private func secondsUntilRest(
        _ rule: inout RestRule,
        from now: UInt64,
        openIndexes: Int
    ) -> UInt64 {
        for second in 0..<2_000 as Range<UInt64> {
            let time = now + second * RestRuleTests.second
            if rule.check(isQuiet: true, openIndexes: openIndexes, now: time) { return second }
        }
        return .max
    }

    @Test func indexWithoutWorkRestsSoonerOnANodeWithManyOpenIndexes() {
        var rule = RestRule()
        #expect(secondsUntilRest(&rule, from: 5, openIndexes: limits.openMax) == 60)
        rule = RestRule()
        #expect(secondsUntilRest(&rule, from: 5, openIndexes: limits.openMax + 1) == 2)
    }

    @Test func workBeginsTheQuietTimeAgain() {
        var rule = RestRule()
        for second in 0..<1_000 as Range<UInt64> {
            let isDue = rule.check(
                isQuiet: !second.isMultiple(of: 60),
                openIndexes: 1,
                now: second * RestRuleTests.second
            )
            #expect(!isDue)
        }
    }

    /// A bucket with a change every few seconds must not open and close its indexes for each.
    @Test func indexThatIsOpenedAgainSoonStaysOpenTwiceAsLong() {
        var rule = RestRule()
        var now: UInt64 = 1
        var waits: [UInt64] = []
        for _ in 0..<12 {
            waits.append(secondsUntilRest(&rule, from: now, openIndexes: 1_000))
            now += (waits.last ?? 0) * RestRuleTests.second
            rule.closed(openIndexes: 1_000, now: now)
            now += RestRuleTests.second
            rule.opened(now: now)
        }
        #expect(waits == [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600])
        // After a long rest it begins anew.
        rule.closed(openIndexes: 1_000, now: now)
        now += 3_600 * 10 * RestRuleTests.second
        rule.opened(now: now)
        #expect(secondsUntilRest(&rule, from: now, openIndexes: 1_000) == 2)
    }
}
