import Bytes
import Glibc
import LinuxPlatform
import Seams
import TestSupport
import Testing

@Suite struct LaneTests {
    let lanes = LinuxLanes(reactorCount: 1)

    @Test func laneRunsWorkInTheOrderPosted() async {
        let lane = lanes.makeLane("writer")
        let events = Signal<Int>()
        for number in 0..<5_000 { lane.post { events.send(number) } }
        lane.stop()
        #expect(events.values == Array(0..<5_000))
    }

    @Test func laneRunsWorkOfManyPostersOneAtATime() {
        let lane = lanes.makeLane("writer")
        let inside = Guarded((now: 0, most: 0, sum: 0))
        let posters = (0..<4).map { _ in
            InBackground {
                for _ in 0..<2_000 {
                    lane.post {
                        inside.withLock {
                            $0.now += 1
                            $0.most = max($0.most, $0.now)
                        }
                        inside.withLock {
                            $0.now -= 1
                            $0.sum += 1
                        }
                    }
                }
            }
        }
        for poster in posters { #expect(throws: Never.self) { try poster.wait() } }
        lane.stop()
        let seen = inside.withLock { $0 }
        #expect(seen.sum == 8_000)
        #expect(seen.most == 1)
    }

    @Test func timersRunWhenDueAndNotBefore() async {
        let lane = lanes.makeLane("nonIO")
        defer { lane.stop() }
        let clock = LinuxClock()
        let events = Signal<(name: Int, at: UInt64)>()
        let start = clock.monotonicNanoseconds()
        for milliseconds in [90, 30, 60, 30] as [UInt64] {
            lane.post(after: milliseconds * 1_000_000) {
                events.send((Int(milliseconds), clock.monotonicNanoseconds()))
            }
        }
        let seen = await events.wait(4)
        #expect(seen.map(\.name) == [30, 30, 60, 90])
        for event in seen { #expect(event.at - start >= UInt64(event.name) * 1_000_000) }
    }

    /// A sleeping lane is woken for a timer only if it would sleep longer.
    @Test func timerRunsBehindACancelledEarlierOneAndBeforeALaterOne() async {
        let lane = lanes.makeLane("nonIO")
        defer { lane.stop() }
        let events = Signal<Int>()
        let hour: UInt64 = 3_600_000_000_000
        for round in 0..<20 {
            // On a busy machine it may run before it is cancelled.
            let cancelled = lane.post(after: 10_000_000) {}
            // Other rounds let the lane fall asleep for the first timer.
            if round % 2 == 0 { usleep(2_000) }
            cancelled.cancel()
            let far = lane.post(after: hour) { events.send(-2) }
            lane.post(after: 20_000_000) { events.send(round) }
            #expect(await events.wait(round + 1) == Array(0...round))
            far.cancel()
        }
    }

    @Test func cancelledTimerNeverRuns() async {
        let lane = lanes.makeLane("nonIO")
        let events = Signal<Int>()
        let timers = (0..<1_000).map { number in
            lane.post(after: 50_000_000) { events.send(number) }
        }
        for number in 0..<1_000 where number % 10 != 0 { timers[number].cancel() }
        let expected = (0..<100).map { $0 * 10 }
        #expect(await events.wait(100) == expected)
        // Two timers are due together: the first can still cancel the second.
        let second = Guarded<LaneTimer?>(nil)
        let gate = Signal<Bool>()
        lane.post {
            lane.post(after: 1_000_000) { second.withLock { $0?.cancel() } }
            second.withLock { $0 = lane.post(after: 1_000_000) { events.send(-1) } }
            lane.post(after: 1_000_000) { gate.send(true) }
            usleep(20_000)
        }
        #expect(await gate.wait() == [true])
        lane.stop()
        #expect(events.values == expected)
    }

    @Test func stopRunsPostedWorkAndDropsTimersAndLaterWork() {
        let lane = lanes.makeLane("control")
        let events = Signal<Int>()
        lane.post {
            usleep(20_000)
            events.send(1)
        }
        lane.post { events.send(2) }
        lane.post(after: 3_600_000_000_000) { events.send(3) }
        lane.stop()
        lane.post { events.send(4) }
        lane.stop()
        #expect(events.values == [1, 2])
    }

    @Test func threadOfALaneHasTheLanesName() async {
        let lane = lanes.makeLane("background fetch")
        defer { lane.stop() }
        let names = Signal<String>()
        lane.post {
            let name = try? LinuxDisk().read("/proc/thread-self/comm")
            names.send(String(decoding: name ?? [], as: UTF8.self))
        }
        #expect(await names.wait() == ["background fetc\n"])
    }
}
