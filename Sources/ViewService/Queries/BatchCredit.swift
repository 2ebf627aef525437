internal import Bytes
internal import Indexing

/// How many batches a response may send; its coordinator adds credit from any thread.
///
/// Most credit comes before the response needs it. Only a response that has found none is continued by
/// the next addition: each further change of the thread would cost more than a short query.
package final class BatchCredit: Sendable {
    private struct State {
        var count = RowMerge.creditMax
        /// Whether the response has found no credit since the last addition.
        var isAwaited = false
    }

    private let state = Guarded(State())

    /// The credit with which a response begins.
    package init() {}

    /// Adds credit for a batch; returns whether the response waits for it, and must be continued.
    package func add() -> Bool {
        state.withLock { state in
            state.count += 1
            return exchange(&state.isAwaited, with: false)
        }
    }

    /// Whether a batch may be sent; if not, the response waits for the next addition.
    package func isThere() -> Bool {
        state.withLock { state in
            state.isAwaited = state.count == 0
            return state.count > 0
        }
    }

    /// A batch is sent.
    package func use() {
        state.withLock { $0.count -= 1 }
    }
}
