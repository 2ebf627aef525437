import Indexing
import Testing

@Suite struct UpdateScheduleTests {
    private static func terms(_ changes: UInt64, _ seconds: UInt64) -> UpdateSchedule.Terms {
        var terms = UpdateSchedule.Terms()
        (terms.changesMin, terms.intervalNanoseconds) = (changes, seconds * 1_000_000_000)
        return terms
    }

    private static func schedule(_ changes: UInt64, _ seconds: UInt64) -> UpdateSchedule {
        var schedule = UpdateSchedule()
        schedule.set(terms(changes, seconds), now: 0)
        return schedule
    }

    private static func second(_ count: UInt64) -> UInt64 { count * 1_000_000_000 }

    @Test func indexLagsOnlyWithSettingsOfZeroOrAboveDefaults() {
        let cases: [(changes: UInt64, seconds: UInt64, isContinuous: Bool)] = [
            (5_000, 5, true), (1, 1, true), (5_001, 5, false), (5_000, 6, false), (0, 5, false),
            (5_000, 0, false),
        ]
        for value in cases {
            let terms = Self.terms(value.changes, value.seconds)
            #expect(terms.isContinuous == value.isContinuous, "\(value)")
            #expect(
                Self.schedule(value.changes, value.seconds).reads(isNeeded: false)
                    == value.isContinuous
            )
        }
    }

    @Test func updateBeginsWithEnoughChangesOrAfterTheInterval() {
        let cases: [(waiting: UInt64, seconds: UInt64, begins: Bool)] = [
            (9_999, 29, false), (10_000, 1, true), (1, 30, true), (0, 100, false),
        ]
        for value in cases {
            var schedule = Self.schedule(10_000, 30)
            let begins = schedule.check(waiting: value.waiting, now: Self.second(value.seconds))
            #expect(begins == value.begins, "\(value)")
            #expect(schedule.reads(isNeeded: false) == value.begins)
        }
    }

    @Test func updateEndsWhenFewChangesAreLeftAndTheIntervalBeginsThen() {
        var schedule = Self.schedule(10_000, 30)
        let begun = schedule.check(waiting: 50_000, now: Self.second(1))
        let continued = schedule.check(waiting: 12_000, now: Self.second(2))
        let ended = schedule.check(waiting: 100, now: Self.second(3))
        let early = schedule.check(waiting: 100, now: Self.second(32))
        let late = schedule.check(waiting: 100, now: Self.second(33))
        #expect([begun, continued, ended, early, late] == [true, true, false, false, true])
    }

    @Test func requestByQueryStartsUpdateWithDisabledTriggers() {
        var schedule = Self.schedule(0, 0)
        let idle = schedule.check(waiting: 1_000_000, now: Self.second(1_000))
        #expect(!idle)
        schedule.request()
        #expect(schedule.reads(isNeeded: false))
        let runs = schedule.check(waiting: 6_000, now: Self.second(1_001))
        let ended = schedule.check(waiting: 10, now: Self.second(1_002))
        #expect(runs && !ended)
    }

    @Test func waitingQueryReadsChangesWithDisabledTriggers() {
        #expect(Self.schedule(0, 0).reads(isNeeded: true))
    }

    @Test func defaultSettingsEndTheLag() {
        var schedule = Self.schedule(0, 0)
        schedule.set(UpdateSchedule.Terms(), now: 1)
        #expect(schedule.reads(isNeeded: false))
    }
}
