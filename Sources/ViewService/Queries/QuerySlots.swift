internal import Bytes
package import Seams

/// Bounds the view queries that a node coordinates at once, and so the memory of their rows.
///
/// Further queries wait, in the order of their arrival: the clients' libraries do not retry a query that
/// was refused with 503.
///
/// - A slot is free again when it is released, or when its last reference is gone.
/// - A slot that becomes free while queries wait passes to the first of them: it never counts as free.
package final class QuerySlots: Sendable {
    /// Under 1 MiB each in a cluster of four nodes: at most 64 MiB.
    package static let countMax = 64
    /// Queries that wait, each with its connection and its parameters in memory.
    ///
    /// The clients of a longer queue would time out before their turn.
    package static let waitersMax = 1_024

    private struct State {
        var usedCount = 0
        /// The first one waits longest.
        var waiters: [Waiter] = []
    }

    private enum Admission {
        case granted
        case waiting(Waiter)
        case refused
    }

    private let state = Guarded(State())
    private let countMax: Int
    private let waitersMax: Int

    package init(
        _ countMax: Int = QuerySlots.countMax,
        waitersMax: Int = QuerySlots.waitersMax
    ) {
        self.countMax = countMax
        self.waitersMax = waitersMax
    }

    /// Slots in use.
    package var usedCount: Int { state.withLock { $0.usedCount } }
    /// Queries that wait for a slot.
    package var waitingCount: Int { state.withLock { $0.waiters.count } }

    /// A slot for one query; nil if it would have to wait.
    package func acquireIfFree() -> Slot? {
        guard case .granted = admit(canWait: false) else { return nil }
        return Slot(self)
    }

    /// Waits for a slot for one query.
    ///
    /// - Parameters:
    ///   - nanoseconds: How long the query may wait.
    ///   - lane: The lane of the timer that ends the wait.
    /// - Returns: The slot; nil if none became free in time, if too many queries wait already, or if the
    ///   calling task was cancelled.
    package func acquire(within nanoseconds: UInt64, on lane: any Lane) async -> Slot? {
        let waiter: Waiter
        switch admit(canWait: nanoseconds > 0) {
        case .granted: return Slot(self)
        case .refused: return nil
        case .waiting(let admitted): waiter = admitted
        }
        let timer = lane.post(after: nanoseconds) { [self] in remove(waiter) }
        defer { timer.cancel() }
        let isGranted = await withTaskCancellationHandler {
            await waiter.wait()
        } onCancel: {
            remove(waiter)
        }
        return isGranted ? Slot(self) : nil
    }

    // MARK: Implementation

    private func admit(canWait: Bool) -> Admission {
        state.withLock { state -> Admission in
            if state.usedCount < countMax {
                state.usedCount += 1
                return .granted
            }
            guard canWait, state.waiters.count < waitersMax else { return .refused }
            let waiter = Waiter()
            state.waiters.append(waiter)
            return .waiting(waiter)
        }
    }

    /// Ends a wait without a slot, unless one was granted meanwhile.
    private func remove(_ waiter: Waiter) {
        state.withLock { $0.waiters.removeAll { $0 === waiter } }
        _ = waiter.end(isGranted: false)
    }

    /// Passes a slot to the query that waits longest, or frees the slot.
    private func release() {
        while let waiter = removeFirstWaiter() {
            // Skip a waiter whose wait ended meanwhile.
            if waiter.end(isGranted: true) { return }
        }
    }

    /// The query that waits longest; nil, with the slot freed, if none waits.
    private func removeFirstWaiter() -> Waiter? {
        state.withLock { state -> Waiter? in
            guard state.waiters.isEmpty else { return state.waiters.removeFirst() }
            state.usedCount -= 1
            return nil
        }
    }

    /// A query that waits for a slot.
    private final class Waiter: Sendable {
        private enum State {
            /// Its task does not wait yet. Next: `waiting` or `ended`.
            case new
            /// Next: `ended`.
            case waiting(UnsafeContinuation<Bool, Never>)
            /// Final.
            case ended(isGranted: Bool)
        }

        private let state = Guarded(State.new)

        /// Waits until the end; returns whether a slot was granted.
        func wait() async -> Bool {
            await withUnsafeContinuation { continuation in
                let outcome = state.withLock { state -> Bool? in
                    if case .ended(let isGranted) = state { return isGranted }
                    state = .waiting(continuation)
                    return nil
                }
                if let outcome { continuation.resume(returning: outcome) }
            }
        }

        /// Ends the wait; returns false, without an effect, if it has ended already.
        func end(isGranted: Bool) -> Bool {
            let before = state.withLock { state -> State in
                let before = state
                if case .ended = before { return before }
                state = .ended(isGranted: isGranted)
                return before
            }
            switch before {
            case .new: return true
            case .waiting(let continuation):
                continuation.resume(returning: isGranted)
                return true
            case .ended: return false
            }
        }
    }

    /// The right to run one query.
    package final class Slot: Sendable {
        private let slots: QuerySlots
        private let isReleased = Guarded(false)

        fileprivate init(_ slots: QuerySlots) {
            self.slots = slots
        }

        /// Frees the slot; a second call has no effect.
        package func release() {
            let isFirst = isReleased.withLock { !exchange(&$0, with: true) }
            if isFirst { slots.release() }
        }

        deinit { release() }
    }
}
