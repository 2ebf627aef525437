import Replication
import Testing

@Suite struct FlowTests {
    @Test func fullFlowWindowOpensWhenAcknowledged() {
        var window = FlowWindow(bytesMax: 100)
        #expect(window.room == 100)
        window.sent(130)
        #expect(window.room == 0, "one message may go beyond it")
        let isPossible = window.acknowledged(60)
        #expect(isPossible)
        #expect(window.room == 30)
        let isTooMuch = !window.acknowledged(71)
        #expect(isTooMuch, "more than was sent")
        #expect(FlowWindow().room == .max)
    }

    @Test func reservedRoomIsNotGrantedAgain() {
        var window = FlowWindow(bytesMax: 100)
        window.reserve(60)
        #expect(window.room == 40)
        window.reserve(40)
        #expect(window.room == 0)
        window.sent(30)
        window.release(60)
        #expect(window.room == 30)
        window.release(60)
        #expect(window.room == 70, "a window has no negative reservations")
    }

    @Test func receivedBytesAreAcknowledgedAtHalfOfTheBuffer() {
        var debt = FlowDebt(bytesMax: 100)
        let paid = [debt.applied(49), debt.applied(1), debt.takeAll(), debt.applied(7)]
        #expect(paid == [nil, 50, nil, nil])
        let rest = debt.takeAll()
        #expect(rest == 7)
    }

    @Test func unansweredNoopTimesOutAfterInterval() {
        var pulse = NoopPulse(intervalNanoseconds: 100, now: 1_000)
        let asked = [pulse.step(1_040), pulse.step(1_100), pulse.step(1_150)]
        #expect(asked == [.wait(60), .send, .wait(50)])
        pulse.answered()
        let again = [pulse.step(1_205), pulse.step(1_304), pulse.step(1_305)]
        #expect(again == [.send, .wait(1), .giveUp])
    }

    @Test func noopWhoseAnswerCannotBeReadTimesOutLater() {
        var pulse = NoopPulse(intervalNanoseconds: 100, now: 1_000)
        pulse.postponeEnd(1_050)
        let sent = pulse.step(1_100)
        #expect(sent == .send, "a no-op that is not sent yet is not postponed")
        pulse.postponeEnd(1_190)
        let later = [pulse.step(1_200), pulse.step(1_290)]
        #expect(later == [.wait(90), .giveUp])
    }
}
