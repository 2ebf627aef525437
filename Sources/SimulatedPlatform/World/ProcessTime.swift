internal import Seams

/// A stop that is to come in the middle of a piece of work.
struct PendingStop {
    var turns: Int
    let nanoseconds: UInt64
}

/// The clock as one process sees it.
///
/// A process may be stopped in the middle of a turn, right after it first looked at the clock: what
/// is left of the turn runs at once here, but by a clock that shows when the process goes on, and
/// what it says is heard then. Nothing else of the process runs meanwhile, so nobody can tell.
final class ProcessTime: TimeSource, @unchecked Sendable {  // tidy:allow one thread
    private let process: SimulatedProcess
    private let clock: SimulatedClock
    /// The last piece of work in which a reactor looked at it.
    private var looked: UInt64 = 0

    init(process: SimulatedProcess, clock: SimulatedClock) {
        self.process = process
        self.clock = clock
    }

    func monotonicNanoseconds() -> UInt64 {
        let shown = clock.monotonicNanoseconds() + lost
        if process.pendingStop != nil { noticeLook() }
        return shown
    }

    func wallNanoseconds() -> UInt64 { clock.wallNanoseconds() &+ lost }

    /// Of this piece of work.
    private var lost: UInt64 {
        guard let stop = process.stop, stop.step == process.queue.steps else { return 0 }
        return stop.nanoseconds
    }

    private func noticeLook() {
        let queue = process.queue
        guard queue.steps != looked, queue.isRunning(reactorOf: process), !process.isFrozen,
            var pending = process.pendingStop
        else { return }
        looked = queue.steps
        pending.turns -= 1
        process.pendingStop = pending.turns > 0 ? pending : nil
        guard pending.turns <= 0 else { return }
        process.stop = (queue.steps, pending.nanoseconds)
        process.freeze()
        process.host.stoppedInTurn?()
        queue.time.add(
            at: queue.time.now + pending.nanoseconds,
            .happen { [weak process] in process?.thaw() }
        )
    }
}
