internal import Bytes
package import ScriptProcesses
package import Seams
package import Vocabulary

/// The indexes, queries and script processes of a node at one time.
package struct ViewReading: Sendable {
    /// Another one for each measurement of a meter.
    package var number: UInt64 = 0
    package var indexes: [IndexReport] = []
    /// By bucket UUID: the queries of which the node has answered a part.
    package var queries: [String: UInt64] = [:]
    package var scripts = ScriptPool.Usage()
    /// Of the queries that clients sent to the node.
    package var latencies: [LatencyReading] = []

    package init() {}
}

/// Measures the views of a node for statistics, tasks and operators.
///
/// - Nothing waits: a caller gets the newest measurement, and has the next one begun. An index whose
///   disk is slow delays later figures, and no caller.
/// - At most a hundred indexes are measured in a second: a node may have a thousand with nothing to do.
/// - Without an index service nothing is measured.
package final class ViewMeter: Sendable {
    private struct State {
        var reading = ViewReading()
        /// The number of the measurement that was begun last, and when.
        var begun: UInt64 = 0
        var begunAt: UInt64?
    }

    /// Callers that poll do not cause more work than the statistics do.
    private static let intervalNanoseconds: UInt64 = 500_000_000
    private static let intervalNanosecondsPerIndex: UInt64 = 10_000_000
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
    /// If this is called every second, it is at most two seconds old with a hundred indexes, and ten more
    /// with a thousand.
    package func read() -> ViewReading? {
        guard let service = service() else { return nil }
        let now = time.monotonicNanoseconds()
        let (reading, number) = state.withLock { state -> (ViewReading, UInt64?) in
            let isRunning = state.begun > state.reading.number
            let pause =
                isRunning
                ? ViewMeter.patienceNanoseconds
                : max(
                    ViewMeter.intervalNanoseconds,
                    UInt64(state.reading.indexes.count) * ViewMeter.intervalNanosecondsPerIndex
                )
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
                reading.number = number
                reading.indexes = indexes
                reading.queries = service.queries.withLock { $0 }
                reading.scripts = usage
                accept(reading)
            }
        }
    }

    private func accept(_ reading: ViewReading) {
        state.withLock { state in
            if reading.number > state.reading.number { state.reading = reading }
        }
    }
}
