import Scripting
import Testing

/// When a view is stopped, and what its author learns of its errors.
@Suite struct RunawayRuleTests {
    private let second: UInt64 = 1_000_000_000

    @Test func sixteenTimeOutsInSuccessionStopAView() {
        var rule = RunawayRule()
        for number in 1...16 {
            let isNew = rule.record(.timedOut(nanoseconds: 10_000_000), now: UInt64(number))
            #expect(isNew == (number == 16))
        }
        #expect(rule.cause == .inSuccession(16))
        #expect(rule.cause?.description.contains("16 calls in succession") == true)
        // It stays so, and is reported once.
        let isNew = [
            rule.record(.ended, now: 20), rule.record(.timedOut(nanoseconds: 1), now: 20),
        ]
        #expect(isNew == [false, false])
        #expect(rule.cause != nil)
    }

    @Test func abandonedCallStopsAView() {
        var rule = RunawayRule()
        let isRunaway = rule.record(.abandoned, now: 1)
        #expect(isRunaway)
        #expect(rule.cause == .inSuccession(RunawayRule.successionMax))
    }

    @Test func completedCallBetweenTimeoutsDoesNotStopAView() {
        var rule = RunawayRule()
        for number in 1...200 {
            let call: RunawayRule.Call =
                number % 16 == 0 ? .ended : .timedOut(nanoseconds: 10_000_000)
            let isRunaway = rule.record(call, now: UInt64(number) * second)
            #expect(!isRunaway)
        }
    }

    @Test func callsThatEndProcessesCountAsTimeOuts() {
        var rule = RunawayRule()
        for number in 1...16 {
            let call: RunawayRule.Call =
                number % 2 == 0 ? .endedProcess : .timedOut(nanoseconds: 1)
            let isRunaway = rule.record(call, now: 1)
            #expect(isRunaway == (number == 16))
        }
    }

    @Test func thirtySecondsOfTimeOutsInFiveMinutesStopAView() {
        var rule = RunawayRule()
        for number in 0..<30 {
            let now = UInt64(number) * 9 * second
            let isRunaway = rule.record(.timedOut(nanoseconds: second), now: now)
            #expect(isRunaway == (number == 29))
            _ = rule.record(.ended, now: now)
        }
        #expect(rule.cause == .inWindow(nanoseconds: 30 * second))
    }

    @Test func olderTimeOutsAreForgotten() {
        var rule = RunawayRule()
        for number in 0..<1_000 {
            let now = UInt64(number) * 11 * second
            let isRunaway = rule.record(.timedOut(nanoseconds: second), now: now)
            #expect(!isRunaway)
            _ = rule.record(.ended, now: now)
        }
    }

    @Test func manyShortTimeOutsAreSummed() {
        var rule = RunawayRule()
        var count = 0
        while count < 10_000 {
            count += 1
            if rule.record(.timedOut(nanoseconds: 10_000_000), now: UInt64(count) * second / 20) {
                break
            }
            _ = rule.record(.ended, now: UInt64(count) * second / 20)
        }
        #expect(count == 3_000)
    }

    @Test func errorsAreCountedByKindAndTheLastTwentyAreKept() {
        var errors = ScriptErrors()
        for number in 0..<50 {
            let kind: ScriptErrors.Kind = number % 5 == 0 ? .memory : .threw
            let entry = ScriptErrors.Entry(kind, id: "d\(number)", line: UInt32(number), text: "t")
            errors.record(entry)
        }
        #expect(errors.counts == [.memory: 10, .threw: 40])
        #expect(errors.recent.map(\.id) == (30..<50).map { "d\($0)" })
        #expect(errors.recent.last?.line == 49)
    }

    @Test func textsOfErrorsAreCutBetweenCharacters() {
        let text = String(repeating: "é", count: 1_000)
        let entry = ScriptErrors.Entry(.threw, id: "x" + text, line: 1, text: text)
        #expect(entry.text.utf8.count == 1_024)
        #expect(entry.id.utf8.count == 249)
        #expect(entry.id.hasPrefix("xé") && entry.id.hasSuffix("é"))
    }

    @Test func newErrorsAreReportedOnceAMinute() {
        var errors = ScriptErrors()
        func entry(_ kind: ScriptErrors.Kind) -> ScriptErrors.Entry {
            ScriptErrors.Entry(kind, id: "d", line: 0, text: "")
        }
        var reports = [errors.report(now: second)]
        errors.record(entry(.threw))
        reports += [errors.report(now: second), errors.report(now: 200 * second)]
        errors.record(entry(.threw))
        reports.append(errors.report(now: 201 * second))
        errors.record(entry(.memory))
        reports += [errors.report(now: 260 * second), errors.report(now: 261 * second)]
        #expect(reports == [nil, [.threw: 1], nil, [.threw: 1], nil, [.memory: 1]])
    }
}
