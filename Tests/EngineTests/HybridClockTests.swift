import Engine
import Testing
import Vocabulary

/// The clock of CAS values, with the time of day ahead of it and behind it.
@Suite struct HybridClockTests {
    private static let step: UInt64 = 1 << 16

    @Test func peekReturnsNextValueWithoutAdvancing() {
        var clock = HybridClock(after: .none)
        let (cas, isLogical) = clock.peek(5 * Self.step + 9)
        #expect(cas == CAS(5 * Self.step) && !isLogical)
        #expect(clock.last == .none)
        let next = clock.next(5 * Self.step + 9)
        #expect(next == cas)
    }

    @Test func clockAtOrAheadOfTimeOfDayIsLogical() {
        let clock = HybridClock(after: CAS(5 * Self.step))
        for wall in [4 * Self.step, 5 * Self.step, 6 * Self.step - 1] {
            let (cas, isLogical) = clock.peek(wall)
            #expect(cas == CAS(5 * Self.step + 1) && isLogical, "\(wall)")
        }
        let (cas, isLogical) = clock.peek(6 * Self.step)
        #expect(cas == CAS(6 * Self.step) && !isLogical)
    }
}
