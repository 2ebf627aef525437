internal import Seams

/// A scheduled stop in the middle of a work item.
struct PendingStop {
    var turns: Int
    let nanoseconds: UInt64
}

/// The `TimeSource` seam of one process.
///
/// A process may be stopped in the middle of a turn, right after its first read of the clock. The
/// rest of the turn then runs at once, with a clock that shows the time of the continuation, and
/// its output is sent at that time. No other work of the process runs in between, so the difference
/// cannot be observed.
final class ProcessTime: TimeSource, @unchecked Sendable {  // tidy:allow one thread
    private let process: SimulatedProcess
    private let clock: SimulatedClock
    /// The step of the last reactor turn that read the clock.
    private var lastReadStep: UInt64 = 0

    init(process: SimulatedProcess, clock: SimulatedClock) {
        self.process = process
        self.clock = clock
    }

    func monotonicNanoseconds() -> UInt64 {
        let shown = clock.monotonicNanoseconds() + lost
        if process.pendingStop != nil { countTurnAndStop() }
        return shown
    }

    func wallNanoseconds() -> UInt64 { clock.wallNanoseconds() &+ lost }

    /// Nanoseconds for which the process was stopped in this work item.
    private var lost: UInt64 {
        guard let stop = process.stop, stop.step == process.queue.steps else { return 0 }
        return stop.nanoseconds
    }

    /// Counts a reactor's turn at its first read of the clock, and stops the process when the
    /// scheduled turn is reached.
    private func countTurnAndStop() {
        let queue = process.queue
        guard queue.steps != lastReadStep, queue.isRunning(reactorOf: process), !process.isFrozen,
            var pending = process.pendingStop
        else { return }
        lastReadStep = queue.steps
        pending.turns -= 1
        process.pendingStop = pending.turns > 0 ? pending : nil
        guard pending.turns <= 0 else { return }
        process.stop = (queue.steps, pending.nanoseconds)
        process.freeze()
        process.host.onStopInTurn?()
        queue.time.add(
            at: queue.time.now + pending.nanoseconds,
            .happen { [weak process] in process?.thaw() }
        )
    }
}
