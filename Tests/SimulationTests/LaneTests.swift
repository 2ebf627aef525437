import Bytes
import Foundation
import Seams
import SimulatedPlatform
import Testing

/// Time and lanes of a simulated world.
@Suite struct LaneTests {
    private let world = SimulatedWorld(seed: 3)

    @Test func simulatedLaneRunsWorkInTheOrderPosted() {
        let lane = world.addHost("10.0.0.1").start().lanes.makeLane("writer")
        let seen = Guarded<[Int]>([])
        for number in 0..<3_000 { lane.post { seen.withLock { $0.append(number) } } }
        world.run(for: 1_000_000_000)
        #expect(seen.withLock { $0 } == Array(0..<3_000))
    }

    @Test func seedChoosesTheOrderOfLanes() {
        func order(_ seed: UInt64) -> [Int] {
            let world = SimulatedWorld(seed: seed)
            let environment = world.addHost("10.0.0.1").start()
            let seen = Guarded<[Int]>([])
            for number in 0..<8 {
                environment.lanes.makeLane("lane").post { seen.withLock { $0.append(number) } }
            }
            world.run(for: 1_000_000)
            return seen.withLock { $0 }
        }
        #expect(order(1) == order(1))
        #expect(Set((0..<20).map(order)).count > 15)
    }

    @Test func timeAdvancesToTheNextTimer() {
        let environment = world.addHost("10.0.0.1").start()
        let lane = environment.lanes.makeLane("control")
        let before = environment.time.monotonicNanoseconds()
        let at = Guarded<[UInt64]>([])
        for seconds in [3, 1, 2] as [UInt64] {
            lane.post(after: seconds * 1_000_000_000) {
                at.withLock { $0.append(environment.time.monotonicNanoseconds() - before) }
            }
        }
        let cancelled = lane.post(after: 500) { at.withLock { $0.append(0) } }
        cancelled.cancel()
        world.run(for: 2_500_000_000)
        #expect(at.withLock { $0 } == [1_000_000_000, 2_000_000_000])
        #expect(environment.time.monotonicNanoseconds() - before == 2_500_000_000)
    }

    @Test func stoppedLaneRunsPostedWorkAndNoTimers() {
        let lane = world.addHost("10.0.0.1").start().lanes.makeLane("writer")
        let seen = Guarded<[String]>([])
        lane.post { seen.withLock { $0.append("posted") } }
        lane.post(after: 1_000) { seen.withLock { $0.append("later") } }
        lane.stop()
        lane.post { seen.withLock { $0.append("too late") } }
        world.run(for: 1_000_000_000)
        #expect(seen.withLock { $0 } == ["posted"])
    }

    @Test func endedProcessRunsNoWork() {
        let host = world.addHost("10.0.0.1")
        let environment = host.start()
        let lane = environment.lanes.makeLane("writer")
        let count = Guarded(0)
        lane.post { count.withLock { $0 += 1 } }
        lane.post(after: 1_000) { count.withLock { $0 += 1 } }
        host.crash()
        lane.post { count.withLock { $0 += 1 } }
        world.run(for: 1_000_000_000)
        #expect(count.withLock { $0 } == 0)
        #expect(throws: DiskError.self) { try environment.disk.createDirectory("/data") }
    }

    @Test func frozenProcessContinuesAfterThaw() {
        let host = world.addHost("10.0.0.1")
        let environment = host.start()
        let lane = environment.lanes.makeLane("control")
        let at = Guarded<[UInt64]>([])
        let began = environment.time.monotonicNanoseconds()
        lane.post(after: 1_000_000) {
            at.withLock { $0.append(environment.time.monotonicNanoseconds() - began) }
        }
        world.apply(.freeze("10.0.0.1"))
        world.run(for: 1_000_000_000)
        #expect(at.withLock { $0 }.isEmpty)
        world.apply(.thaw("10.0.0.1"))
        world.run(for: 1_000)
        #expect(at.withLock { $0 } == [1_000_000_000])
    }

    @Test func workOnASlowDiskSpeedsUpWhenTheDiskRecovers() throws {
        let environment = world.addHost("10.0.0.1").start()
        let lane = environment.lanes.makeLane("admin")
        world.apply(.diskSlow("10.0.0.1", nanoseconds: 30_000_000))
        let began = environment.time.monotonicNanoseconds()
        lane.post {
            for _ in 0..<1_000 { _ = try? environment.disk.list("/") }
        }
        let ended = Guarded<UInt64?>(nil)
        lane.post {
            ended.withLock { $0 = environment.time.monotonicNanoseconds() - began }
        }
        world.run(for: 15_000_000_000)
        #expect(ended.withLock { $0 } == nil)
        // Half of it is done: the other half takes a third of its time, and then none.
        world.apply(.diskSlow("10.0.0.1", nanoseconds: 10_000_000))
        world.run(for: 2_000_000_000)
        #expect(ended.withLock { $0 } == nil)
        world.apply(.diskSlow("10.0.0.1", nanoseconds: 0))
        world.run(for: 1_000_000_000)
        let took = try #require(ended.withLock { $0 })
        #expect(took >= 17_000_000_000 && took < 17_500_000_000)
    }

    @Test func clocksDriftJumpAndStop() {
        let environments = ["10.0.0.1", "10.0.0.2"].map { world.addHost($0).start() }
        func shown() -> [UInt64] { environments.map { $0.time.monotonicNanoseconds() } }
        func passed(_ before: [UInt64]) -> [UInt64] { zip(shown(), before).map { $0 - $1 } }
        let count = Guarded(0)
        world.apply(.clockRate("10.0.0.1", millionths: 10_000))
        let lane = environments[0].lanes.makeLane("control")
        var before = shown()
        lane.post(after: 101_000_000) { count.withLock { $0 += 1 } }
        world.run(for: 100_000_000 - 1_000)
        #expect(count.withLock { $0 } == 0)
        world.run(for: 2_000)
        #expect(count.withLock { $0 } == 1)
        #expect(passed(before) == [101_001_010, 100_001_000])
        before = shown()
        world.apply(.clockFreeze("10.0.0.1"))
        world.run(for: 1_000_000_000)
        #expect(passed(before) == [0, 1_000_000_000])
        let wall = environments[1].time.wallNanoseconds()
        world.apply(.clockJump("10.0.0.2", nanoseconds: -5_000))
        #expect(environments[1].time.wallNanoseconds() == wall - 5_000)
        #expect(passed(before) == [0, 1_000_000_000])
    }

    @Test func slowClockNeverGoesBack() {
        let host = world.addHost("10.0.0.1")
        world.apply(.clockRate("10.0.0.1", millionths: -10_000))
        var before = host.clock.monotonicNanoseconds()
        let began = before
        for _ in 0..<3_000 {
            world.run(for: 999)
            let now = host.clock.monotonicNanoseconds()
            #expect(now > before)
            before = now
        }
        #expect(before - began == 2_997_000 / 100 * 99)
    }

    @Test func monotonicClockRestartsAfterAPowerCut() {
        let host = world.addHost("10.0.0.1")
        var environment = host.start()
        world.run(for: 100_000_000_000)
        let (wall, before) = (host.clock.wallNanoseconds(), host.clock.monotonicNanoseconds())
        host.crash()
        environment = host.start()
        #expect(environment.time.monotonicNanoseconds() == before)
        host.cutPower()
        environment = host.start()
        #expect(environment.time.monotonicNanoseconds() == 10_000_000_000)
        #expect(environment.time.wallNanoseconds() == wall)
    }

    /// Code that starts its own thread would make runs differ.
    @Test func callFromAnotherThreadTrapsWithAMessage() async {
        await #expect(processExitsWith: .failure) {
            let world = SimulatedWorld(seed: 1)
            let lane = world.addHost("10.0.0.1").start().lanes.makeLane("writer")
            await withUnsafeContinuation { (waiter: UnsafeContinuation<Void, Never>) in
                let thread = Thread {
                    lane.post {}
                    waiter.resume()
                }
                thread.start()
            }
        }
    }

    @Test func slowLaneDelaysItsWork() {
        let environment = world.addHost("10.0.0.1").start()
        let lane = environment.lanes.makeLane("writer-0")
        world.apply(.slowLane("10.0.0.1", lanes: "writer", nanoseconds: 10_000_000))
        let count = Guarded(0)
        for _ in 0..<10 { lane.post { count.withLock { $0 += 1 } } }
        world.run(for: 45_000_000)
        #expect(count.withLock { $0 } == 5)
    }
}
