internal import Bytes
internal import Seams

/// Callers that wait for a change of the service, for a limited time.
final class IndexWaits: Sendable {
    private struct Wait {
        let isOver: @Sendable () -> Bool
        let done: @Sendable (Bool) -> Void
        var timer: LaneTimer?
    }

    private struct State {
        var waits: [UInt64: Wait] = [:]
        var numbers: UInt64 = 0
        var isStopped = false
    }

    private let lane: any Lane
    private let state = Guarded(State())

    /// `lane` is where waits end.
    init(_ lane: any Lane) {
        self.lane = lane
    }

    /// Calls `done` once, on the lane: with true when `isOver` is, with false after the time or when
    /// the waits are stopped.
    func add(
        nanoseconds: UInt64,
        until isOver: @escaping @Sendable () -> Bool,
        done: @escaping @Sendable (Bool) -> Void
    ) {
        let number = state.withLock { state -> UInt64? in
            guard !state.isStopped else { return nil }
            state.numbers += 1
            state.waits[state.numbers] = Wait(isOver: isOver, done: done)
            return state.numbers
        }
        guard let number else { return lane.post { done(false) } }
        // Checked after it was added, so that no change between is missed.
        guard !isOver() else { return end(number, true) }
        let timer = lane.post(after: nanoseconds) { [weak self] in self?.end(number, false) }
        let isLate = state.withLock { state in
            state.waits[number]?.timer = timer
            return state.waits[number] == nil
        }
        if isLate { timer.cancel() }
    }

    /// Ends the waits that are over; called after each change, from any thread.
    func check() {
        let waits = state.withLock { $0.waits }
        for (number, wait) in waits.sorted(by: { $0.key < $1.key }) where wait.isOver() {
            end(number, true)
        }
    }

    func stop() {
        let numbers = state.withLock { state in
            state.isStopped = true
            return state.waits.keys.sorted()
        }
        for number in numbers { end(number, false) }
    }

    private func end(_ number: UInt64, _ isOver: Bool) {
        guard let wait = state.withLock({ $0.waits.removeValue(forKey: number) }) else { return }
        wait.timer?.cancel()
        lane.post { wait.done(isOver) }
    }
}
