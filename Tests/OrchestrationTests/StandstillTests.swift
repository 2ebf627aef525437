import Orchestration
import Testing
import Vocabulary

/// Log lines about a rebalance without progress.
@Suite struct StandstillTests {
    private let second: UInt64 = 1_000_000_000

    @Test func rebalanceWithProgressIsNotLogged() {
        var standstill = Standstill(now: 5 * second)
        for now in stride(from: 10 * second, to: 200 * second, by: 10_000_000_000) {
            #expect(standstill.secondsToLog(now: now) == nil)
            standstill.moved(now: now)
        }
    }

    @Test func standstillIsLoggedAgainWithTheTotalTime() {
        var standstill = Standstill(now: 5 * second)
        let seconds = (5..<105).compactMap { standstill.secondsToLog(now: $0 * second) }
        #expect(seconds == [30, 60, 90])
        standstill.moved(now: 105 * second)
        #expect(standstill.secondsToLog(now: 134 * second) == nil)
        #expect(standstill.secondsToLog(now: 135 * second) == 30)
    }
}
