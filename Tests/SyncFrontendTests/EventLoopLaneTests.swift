import Bytes
import Seams
import SyncFrontend
import TestSupport
import Testing

@Suite struct EventLoopLaneTests {
    @Test func workRunsInTheOrderPostedOnOneThread() throws {
        let lane = EventLoopLane("test")
        defer { lane.stop() }
        let seen = Guarded<[Int]>([])
        for number in 0..<100 { lane.post { seen.withLock { $0.append(number) } } }
        #expect(try lane.run { lane.isCurrent })
        #expect(!lane.isCurrent)
        #expect(seen.withLock { $0 } == Array(0..<100))
    }

    @Test func delayedWorkRunsOnceUnlessItIsCancelled() async throws {
        let lane = EventLoopLane("test")
        defer { lane.stop() }
        let held = Held()
        let timer = lane.post(after: 20_000_000) { held.note("cancelled") }
        lane.post(after: 40_000_000) { held.note("run") }
        timer.cancel()
        try await waitUntil("the second timer runs") { !held.texts.isEmpty }
        #expect(held.texts == ["run"])
    }

    @Test func workThatSharesATimerRunsInItsOrderAndCancelsTheRest() async throws {
        let lane = EventLoopLane("test")
        defer { lane.stop() }
        let held = Held()
        let last = Guarded<LaneTimer?>(nil)
        try lane.run {
            for number in 1...3 {
                lane.post(after: 64_000_000) {
                    held.note("\(number)")
                    if number == 2 { last.withLock { $0 }?.cancel() }
                }
            }
            last.withLock { $0 = lane.post(after: 64_000_000) { held.note("cancelled") } }
        }
        try await waitUntil("the timers run") { held.texts.count >= 3 }
        lane.post(after: 10_000_000) { held.note("later") }
        try await waitUntil("the last timer runs") { held.texts.count >= 4 }
        #expect(held.texts == ["1", "2", "3", "later"])
    }

    @Test func stopRunsPostedWorkAndDropsDelayedAndLaterWork() {
        let lane = EventLoopLane("test")
        let held = Held()
        lane.post { held.note("posted") }
        lane.post(after: 3_600_000_000_000) { held.note("never due") }
        lane.stop()
        lane.post { held.note("too late") }
        #expect(held.texts == ["posted"])
    }

    @Test func errorOfTheWorkIsThrownToTheCaller() {
        let lane = EventLoopLane("test")
        defer { lane.stop() }
        #expect(throws: CancellationError.self) { try lane.run { throw CancellationError() } }
    }
}
