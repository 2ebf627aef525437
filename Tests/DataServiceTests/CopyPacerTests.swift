import Bytes
import DataService
import LinuxPlatform
import Seams
import TestWorld
import Testing

/// When copying waits for clients, and when it does not.
@Suite struct CopyPacerTests {
    @Test func copyPacerWithoutClientsDoesNotThrottle() {
        let world = PacerWorld()
        world.pacer.sent(1 << 40)
        world.pass(milliseconds: 100)
        #expect(world.pacer.room() == .max)
    }

    @Test func waiterIsNotifiedOnceCopyPacerHasRoom() {
        let world = PacerWorld()
        world.copyBesideClients()
        world.pacer.sent(world.pacer.room() + 100_000)
        #expect(world.pacer.room() == 0)
        let notified = Guarded(false)
        world.pacer.wait { notified.withLock { $0 = true } }
        #expect(!notified.withLock { $0 })
        world.pass(milliseconds: 20)
        #expect(notified.withLock { $0 })
        #expect(world.pacer.room() > 0)
    }

    /// The last sample precedes the waiter, which asked before the sample had the lock.
    @Test func waitDuringLastSampleIsNotified() {
        let world = PacerWorld()
        world.copyBesideClients()
        world.pacer.sent(world.pacer.room() + (1 << 30))
        // Between a sample's reading of the clock and its lock, a stream asks with a later time.
        world.duringNextSample {
            world.time.advance(to: world.time.monotonicNanoseconds() + 1_000)
            #expect(world.pacer.room() == 0)
        }
        let notified = Guarded(false)
        world.pacer.wait { notified.withLock { $0 = true } }
        world.pass(milliseconds: 100)
        #expect(notified.withLock { $0 })
    }

    @Test func waitAfterSamplingStoppedIsNotifiedAtOnce() {
        let world = PacerWorld()
        world.copyBesideClients()
        world.pass(milliseconds: 3_000)
        let notified = Guarded(false)
        world.pacer.wait { notified.withLock { $0 = true } }
        #expect(notified.withLock { $0 })
    }

    @Test func idleTimeResetsCopyPace() {
        let world = PacerWorld()
        world.copyBesideClients()
        world.pacer.sent(1 << 40)
        #expect(world.pacer.room() == 0)
        // Clients continue, no copies are sent, and so the sampling ends.
        world.runClientOperations(milliseconds: 3_000)
        #expect(world.pacer.room() == .max)
    }

    @Test func copyPacerWithoutCopiesDoesNotSample() {
        let world = PacerWorld()
        world.copyBesideClients()
        #expect(world.lanes.pending("looks") == 1)
        world.pass(milliseconds: 3_000)
        #expect(world.lanes.pending("") == 0)
    }

    @Test func unresponsiveReactorThrottlesCopying() {
        let world = PacerWorld()
        world.copyBesideClients(milliseconds: 1_000)
        let fast = world.pacer.room()
        world.lanes.hold("reactor")
        world.copyBesideClients(milliseconds: 1_000)
        #expect(world.pacer.room() < fast / 2)
        world.lanes.release("reactor")
    }
}

/// A pacer whose clients, reactors and clock are controlled by the test.
private final class PacerWorld {
    let time = ManualTime()
    let lanes: ManualLanes
    let pacer: CopyPacer
    private let operations = Guarded<UInt64>(0)
    private let asked = Guarded<(@Sendable () -> Void)?>(nil)

    init() {
        let lanes = ManualLanes(time: time)
        self.lanes = lanes
        let environment = Environment.doubles(
            time: time,
            network: NoNetwork(lane: lanes.makeLane("reactor 0")),
            lanes: lanes
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

    /// Simulates clients with ten thousand operations a second.
    func runClientOperations(milliseconds: UInt64, andThen each: () -> Void = {}) {
        for _ in 0..<milliseconds {
            operations.withLock { $0 += 10 }
            each()
            pass(milliseconds: 1)
        }
    }

    func copyBesideClients(milliseconds: UInt64 = 300) {
        runClientOperations(milliseconds: milliseconds) { _ = pacer.room() }
    }

    /// Runs `work` in the middle of the next sample, then passes time until the sample ends.
    func duringNextSample(_ work: @escaping () -> Void) {
        let work = Unchecked(work)
        asked.withLock { $0 = { work.body() } }
        while asked.withLock({ $0 != nil }) { pass(milliseconds: 1) }
    }
}

/// A value that is used only on the test's thread.
private struct Unchecked: @unchecked Sendable {  // tidy:allow everything here is one thread
    let body: () -> Void

    init(_ body: @escaping () -> Void) { self.body = body }
}
