import Syncing
import Testing

@Suite struct SequenceCounterTests {
    /// Draws a sequence, with a reservation if the counter needs one; 0 if it is exhausted.
    private func draw(_ counter: inout SequenceCounter) -> UInt64 {
        while true {
            switch counter.draw() {
            case .sequence(let sequence): return sequence
            case .needsReservation: counter.reserved(through: counter.reservation)
            case .exhausted: return 0
            }
        }
    }

    @Test func oneNodeHasSmallNumbersWithoutGaps() {
        var counter = SequenceCounter()
        #expect(counter.draw() == .needsReservation)
        let drawn = (1...5).map { _ in draw(&counter) }
        #expect(drawn == [1, 2, 3, 4, 5])
        #expect(counter.through(5) == 5)
    }

    @Test func sequencesAfterJoiningAreAboveAllPlainOnes() {
        var counter = SequenceCounter()
        for _ in 1...100 { _ = draw(&counter) }
        counter.join(slot: 0)
        let joined = draw(&counter)
        #expect(joined == 101 * 64)
        #expect(counter.through(101) == 101 * 64 + 63)
    }

    @Test func sequencesOfSlotsAreDistinctAndRaisedByMarks() {
        var one = SequenceCounter(.slot(1))
        var other = SequenceCounter(.slot(63))
        let drawn =
            (1...50).map { _ in draw(&one) } + (1...50).map { _ in draw(&other) }
        #expect(Set(drawn).count == 100)
        one.raise(to: 5_000)
        one.raise(to: 10)
        let raised = draw(&one)
        #expect(raised == 5_001 * 64 + 1)
        #expect(one.through(5_000) < 5_001 * 64 + 1)
    }

    @Test func sequencesAfterACrashAreAboveTheReservation() {
        var counter = SequenceCounter()
        let first = draw(&counter)
        #expect(counter.reservation > SequenceCounter.block)
        // The reservation is on disk, the counter is not.
        var restarted = SequenceCounter(reserved: SequenceCounter.block)
        let afterCrash = draw(&restarted)
        #expect(afterCrash > first + SequenceCounter.block - 1)
    }

    @Test func sequencesStayBelowTheirEnd() {
        var plain = SequenceCounter()
        plain.raise(to: SequenceCounter.end - 2)
        let last = draw(&plain)
        #expect(last == SequenceCounter.end - 1)
        #expect(plain.draw() == .exhausted)
        var slotted = SequenceCounter(.slot(63))
        slotted.raise(to: SequenceCounter.end / 64 - 2)
        let lastOfSlot = draw(&slotted)
        #expect(lastOfSlot == SequenceCounter.end - 1)
        #expect(slotted.draw() == .exhausted)
        slotted.raise(to: .max)
        #expect(slotted.draw() == .exhausted)
    }
}
