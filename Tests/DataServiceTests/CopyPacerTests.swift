import Bytes
import DataService
import LinuxPlatform
import Seams
import TestWorld
import Testing

/// When copying has to wait for clients, and that it never waits for nothing.
@Suite struct CopyPacerTests {
    @Test func withoutClientsNothingIsHeldBack() {
        let world = PacerWorld()
        world.pacer.sent(1 << 40)
        world.pass(milliseconds: 100)
        #expect(world.pacer.room() == .max)
    }

    @Test func whoeverHasNoRoomIsToldOnceThereIsSome() {
        let world = PacerWorld()
        world.copyBesideClients()
        world.pacer.sent(world.pacer.room() + 100_000)
        #expect(world.pacer.room() == 0)
        let told = Guarded(false)
        world.pacer.wait { told.withLock { $0 = true } }
        #expect(!told.withLock { $0 })
        world.pass(milliseconds: 20)
        #expect(told.withLock { $0 })
        #expect(world.pacer.room() > 0)
    }

    /// The last look goes before the one who waits, though he asked before it had the lock.
    @Test func whoeverWaitsWhenNobodyLooksAnyMoreIsTold() {
        let world = PacerWorld()
        world.copyBesideClients()
        world.pacer.sent(world.pacer.room() + (1 << 30))
        // Between the clock that a look reads and its lock, somebody asks with a later one.
        world.whileLooking {
            world.time.advance(to: world.time.monotonicNanoseconds() + 1_000)
            #expect(world.pacer.room() == 0)
        }
        let told = Guarded(false)
        world.pacer.wait { told.withLock { $0 = true } }
        world.pass(milliseconds: 100)
        #expect(told.withLock { $0 })
    }

    @Test func whoeverWaitsAfterAllHaveStoppedIsToldAtOnce() {
        let world = PacerWorld()
        world.copyBesideClients()
        world.pass(milliseconds: 3_000)
        let told = Guarded(false)
        world.pacer.wait { told.withLock { $0 = true } }
        #expect(told.withLock { $0 })
    }

    @Test func whatWasMeasuredBeforeAPauseHoldsNobodyBackAfterIt() {
        let world = PacerWorld()
        world.copyBesideClients()
        world.pacer.sent(1 << 40)
        #expect(world.pacer.room() == 0)
        // Clients ask on; nobody copies, and so nobody looks in the end.
        world.haveClientsAsk(milliseconds: 3_000)
        #expect(world.pacer.room() == .max)
    }

    @Test func whereNobodyCopiesNobodyLooks() {
        let world = PacerWorld()
        world.copyBesideClients()
        #expect(world.lanes.pending("looks") == 1)
        world.pass(milliseconds: 3_000)
        #expect(world.lanes.pending("") == 0)
    }

    @Test func aReactorThatDoesNotComeHoldsCopyingBack() {
        let world = PacerWorld()
        world.copyBesideClients(milliseconds: 1_000)
        let fast = world.pacer.room()
        world.lanes.hold("reactor")
        world.copyBesideClients(milliseconds: 1_000)
        #expect(world.pacer.room() < fast / 2)
        world.lanes.release("reactor")
    }
}

/// A pacer whose clients, reactors and clock do what the test says.
private final class PacerWorld {
    let time = ManualTime()
    let lanes: ManualLanes
    let pacer: CopyPacer
    private let operations = Guarded<UInt64>(0)
    private let asked = Guarded<(@Sendable () -> Void)?>(nil)

    init() {
        let lanes = ManualLanes(reactorCount: 1, time: time)
        self.lanes = lanes
        let environment = Environment(
            time: time,
            entropy: LinuxEntropy(),
            network: NoNetwork(
                quiescence: Quiescence(reactorCount: 1),
                lane: lanes.makeLane("reactor 0")
            ),
            disk: LinuxDisk(),
            lanes: lanes,
            trace: RecordingTrace()
        )
        let (operations, asked) = (operations, asked)
        pacer = CopyPacer(environment, lane: lanes.makeLane("looks")) {
            asked.withLock { asked in
                defer { asked = nil }
                return asked
            }?()
            return operations.withLock { $0 }
        }
    }

    func pass(milliseconds: UInt64) {
        let end = time.monotonicNanoseconds() + milliseconds * 1_000_000
        while true {
            while lanes.runOne() {}
            guard let next = lanes.nextDeadline, next <= end else { break }
            time.advance(to: next)
        }
        time.advance(to: end)
    }

    /// Has clients ask for ten thousand operations a second.
    func haveClientsAsk(milliseconds: UInt64, andThen each: () -> Void = {}) {
        for _ in 0..<milliseconds {
            operations.withLock { $0 += 10 }
            each()
            pass(milliseconds: 1)
        }
    }

    func copyBesideClients(milliseconds: UInt64 = 300) {
        haveClientsAsk(milliseconds: milliseconds) { _ = pacer.room() }
    }

    /// Does `work` in the middle of the next look, and lets time pass until that is over.
    func whileLooking(_ work: @escaping () -> Void) {
        let work = Unchecked(work)
        asked.withLock { $0 = { work.body() } }
        while asked.withLock({ $0 != nil }) { pass(milliseconds: 1) }
    }
}

/// What runs on the test's own thread.
private struct Unchecked: @unchecked Sendable {  // tidy:allow everything here is one thread
    let body: () -> Void

    init(_ body: @escaping () -> Void) { self.body = body }
}
