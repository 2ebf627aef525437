internal import Bytes
package import Seams

/// The indexes, queries and script processes of a node at one time.
package struct ViewReading: Sendable {
    package var indexes: [IndexReport] = []
    /// By bucket UUID: the queries of which the node has answered a part.
    package var queries: [String: UInt64] = [:]
    package var scripts = ScriptPool.Usage()

    package init() {}
}

/// Measures the views of a node for statistics, tasks and operators.
///
/// - Nothing waits: a caller gets the newest measurement, and has the next one begun. An index whose
///   disk is slow delays later figures, and no caller.
/// - Without an index service nothing is measured.
package final class ViewMeter: Sendable {
    private struct State {
        var reading = ViewReading()
        /// The number of the measurement that `reading` is from.
        var number: UInt64 = 0
        /// The number of the measurement that was begun last, and when.
        var begun: UInt64 = 0
        var begunAt: UInt64?
    }

    /// Callers that poll do not cause more work than the statistics do.
    private static let intervalNanoseconds: UInt64 = 500_000_000
    /// After this time a measurement is given up: an index that was closed meanwhile may not answer.
    private static let patienceNanoseconds: UInt64 = 10_000_000_000

    private let time: any TimeSource
    private let service: @Sendable () -> IndexService?
    private let state = Guarded(State())

    /// Measures what `service` returns; nil as long as there are no views.
    package init(_ time: any TimeSource, of service: @escaping @Sendable () -> IndexService?) {
        self.time = time
        self.service = service
    }

    /// The newest measurement; nil without an index service.
    ///
    /// From any thread.
    ///
    /// It is at most some seconds old if this is called every second.
    package func read() -> ViewReading? {
        guard let service = service() else { return nil }
        let now = time.monotonicNanoseconds()
        let (reading, number) = state.withLock { state -> (ViewReading, UInt64?) in
            let isRunning = state.begun > state.number
            let pause =
                isRunning ? ViewMeter.patienceNanoseconds : ViewMeter.intervalNanoseconds
            if let begunAt = state.begunAt, now < begunAt + pause { return (state.reading, nil) }
            state.begun += 1
            state.begunAt = now
            return (state.reading, state.begun)
        }
        if let number { measure(service, number) }
        return reading
    }

    private func measure(_ service: IndexService, _ number: UInt64) {
        service.report { [self] indexes in
            service.scripts.measure { [self] usage in
                var reading = ViewReading()
                reading.indexes = indexes
                reading.queries = service.queries.withLock { $0 }
                reading.scripts = usage
                accept(reading, number)
            }
        }
    }

    private func accept(_ reading: ViewReading, _ number: UInt64) {
        state.withLock { state in
            guard number > state.number else { return }
            state.number = number
            state.reading = reading
        }
    }
}
