import HTTPFrontend
import Testing

/// One timer for a deadline that moves with every request.
@Suite struct MovingDeadlineTests {
    @Test func laterDeadlineKeepsTheTimer() {
        var deadline = MovingDeadline()
        let sets: [(UInt64, Bool)] = [(10, true), (20, false), (20, false), (9, true), (15, false)]
        for (time, isSet) in sets { #expect(deadline.set(time) == isSet, "\(time)") }
        #expect(deadline.fire() == .setTimer(15))
        #expect(deadline.fire() == .expired)
        #expect(deadline.fire() == .nothing)
    }

    @Test func clearedDeadlineDoesNotExpire() {
        var deadline = MovingDeadline()
        #expect(deadline.set(10) == true)
        deadline.clear()
        #expect(deadline.fire() == .nothing)
        #expect(deadline.set(30) == true, "no timer is left")
        deadline.clear()
        #expect(deadline.set(40) == false, "the timer is still set")
        #expect(deadline.fire() == .setTimer(40))
        #expect(deadline.fire() == .expired)
    }
}
