internal import Bytes

/// Runs the steps of one query one at a time, without a thread of its own.
///
/// A step runs on the thread that posts it. If another thread runs a step then, that thread runs the new
/// one afterwards. So a short query whose rows are on this node needs no thread but those of its client
/// and of its index: each further thread would cost more than the steps themselves.
///
/// - Steps run in the order in which they were posted, and never at the same time.
/// - The lock is not held while a step runs, so a step may post others.
package final class StepQueue: Sendable {
    package typealias Step = @Sendable () -> Void

    private struct State {
        var steps: [Step] = []
        var isRunning = false
    }

    private let state = Guarded(State())

    package init() {}

    /// Runs a step now, or behind the steps that another thread or a caller of this one runs.
    package func post(_ step: @escaping Step) {
        let isFree = state.withLock { state in
            if state.isRunning {
                state.steps.append(step)
                return false
            }
            state.isRunning = true
            return true
        }
        guard isFree else { return }
        step()
        while let steps = next() {
            for step in steps { step() }
        }
    }

    /// The steps that were posted meanwhile; nil, with the queue free, if there are none.
    private func next() -> [Step]? {
        state.withLock { state in
            if state.steps.isEmpty {
                state.isRunning = false
                return nil
            }
            return exchange(&state.steps, with: [])
        }
    }
}
