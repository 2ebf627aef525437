import Bytes
import Glibc
import LinuxPlatform
import Seams
import SimulatedPlatform
import Testing

/// An ordinary actor without its own lane.
private actor Tally {
    private var lines: [String] = []
    func add(_ line: String) { lines.append(line) }
    var all: [String] { lines }
}

/// Asynchronous procedures on simulated lanes and on threads.
@Suite struct LaneExecutorTests {
    /// The steps of five procedures on two lanes of a world, in their order.
    private func transcript(seed: UInt64) -> [String] {
        let world = SimulatedWorld(seed: seed)
        let environment = world.addHost("10.0.0.1").start()
        let lines = Guarded<[String]>([])
        let tally = Tally()
        let thread = Guarded(pthread_self())
        let lanes = ["control", "aux"].map { environment.lanes.makeLane($0) }
        @Sendable func record(_ line: String) async {
            let isHome = thread.withLock { pthread_equal(pthread_self(), $0) != 0 }
            lines.withLock { $0.append(isHome ? line : "\(line) on another thread") }
            await tally.add(line)
        }
        for number in 0..<5 {
            let executor = LaneExecutor(lanes[number % 2])
            let other = lanes[(number + 1) % 2]
            executor.spawn {
                for step in 0..<4 {
                    await record("\(number) begins \(step)")
                    await executor.sleep(nanoseconds: 1_000_000)
                    // Resumed by work on another lane.
                    await withUnsafeContinuation { waiter in other.post { waiter.resume() } }
                    await withTaskGroup(of: Void.self) { group in
                        for part in 0..<3 { group.addTask { await record("\(number) \(part)") } }
                    }
                    async let one = executor.sleep(nanoseconds: 10)
                    async let two: Void = record("\(number) beside")
                    _ = await (one, two)
                }
            }
        }
        let last = LaneExecutor(lanes[0])
        let counted = Guarded(0)
        world.run(for: 1_000_000_000)
        last.spawn {
            let all = await tally.all
            counted.withLock { $0 = all.count }
        }
        world.run(for: 1_000_000)
        let recorded = lines.withLock { $0 }
        return recorded + ["\(counted.withLock { $0 })", "\(world.transcript.digest)"]
    }

    @Test func seedHasOneOrderOfProcedures() {
        let first = transcript(seed: 7)
        #expect(first.count == 5 * 4 * 5 + 2)
        #expect(first[5 * 4 * 5] == "100")
        #expect(!first.contains { $0.contains("another thread") })
        for _ in 0..<50 { #expect(transcript(seed: 7) == first) }
    }

    @Test func differentSeedHasADifferentOrder() {
        let orders = Set((1...20).map { transcript(seed: $0).dropLast().joined() })
        #expect(orders.count > 15)
    }

    @Test func procedureOnAThreadLaneStaysOnItsThread() async {
        let lane = LinuxLanes(reactorCount: 1).makeLane("control")
        let home = Guarded<pthread_t?>(nil)
        lane.post { home.withLock { $0 = pthread_self() } }
        let executor = LaneExecutor(lane)
        let strays = await executor.spawn {
            var strays = 0
            @Sendable func isStray() -> Bool {
                home.withLock { $0.map { pthread_equal($0, pthread_self()) == 0 } ?? true }
            }
            for _ in 0..<100 {
                if isStray() { strays += 1 }
                await executor.sleep(nanoseconds: 1_000)
                strays += await withTaskGroup(of: Int.self) { group in
                    for _ in 0..<4 { group.addTask { isStray() ? 1 : 0 } }
                    return await group.reduce(0, +)
                }
            }
            return strays
        }.value
        #expect(strays == 0)
        lane.stop()
    }
}
