internal import Bytes
internal import Replication
package import Seams

/// Throttles the copying from this node while its clients wait: a `CopyPace` and its measurements.
///
/// One for all connections. It samples every few milliseconds while copies are sent, and stops when
/// idle.
///
/// - A waiting stream is notified at the next sample, or at once if sampling has stopped.
/// - A pace covers one run of consecutive samples: it is reset after an idle time.
/// - Times that several threads compare are clamped: a reactor reads the clock before it has the
///   lock, and so does the sampler.
package final class CopyPacer: Sendable {
    private struct State {
        var pace: CopyPace
        /// Callbacks of streams without room, to be called at the next sample.
        var waiting: [@Sendable () -> Void] = []
        var isSampling = false
        var usedAt: UInt64 = 0
        /// The worst delay of a reactor since the last sample, without probes that are still
        /// outstanding.
        var lateness: UInt64 = 0
        var probedAt: [Int: UInt64] = [:]
        var operations: UInt64 = 0
    }

    private static let intervalNanoseconds: UInt64 = 5_000_000
    /// Sampling stops after this long without copying.
    private static let idleNanoseconds: UInt64 = 1_000_000_000

    private let environment: Environment
    private let lane: any Lane
    private let operations: @Sendable () -> UInt64
    private let state: Guarded<State>

    /// - Parameters:
    ///   - environment: Time, lanes and network.
    ///   - lane: Runs the samples.
    ///   - operations: The count of all client operations so far.
    package init(
        _ environment: Environment,
        lane: any Lane,
        operations: @escaping @Sendable () -> UInt64
    ) {
        self.environment = environment
        self.lane = lane
        self.operations = operations
        let now = environment.time.monotonicNanoseconds()
        state = Guarded(State(pace: CopyPace(now: now)))
    }

    /// The bytes of copies that may be sent now; zero if clients have to be served first.
    package func room() -> Int {
        let now = environment.time.monotonicNanoseconds()
        let (room, isFirst) = state.withLock { state in
            state.usedAt = max(state.usedAt, now)
            let isFirst = !state.isSampling
            if isFirst {
                state.isSampling = true
                state.pace = CopyPace(now: now)
                state.lateness = 0
            }
            return (state.pace.room, isFirst)
        }
        if isFirst { begin() }
        return room
    }

    package func sent(_ bytes: Int) { state.withLock { $0.pace.sent(bytes) } }

    /// Calls `notify` once there may be room again.
    package func wait(_ notify: @escaping @Sendable () -> Void) {
        let isSampling = state.withLock { state in
            if state.isSampling { state.waiting.append(notify) }
            return state.isSampling
        }
        // The last sample ran between the caller's check and this call.
        if !isSampling { notify() }
    }

    // MARK: Sampling

    private func begin() {
        let operations = operations()
        state.withLock { $0.operations = operations }
        probeReactors()
        lane.post(after: CopyPacer.intervalNanoseconds) { [weak self] in self?.sample() }
    }

    private func sample() {
        let now = environment.time.monotonicNanoseconds()
        let operations = operations()
        let (waiting, continues) = state.withLock { state in
            let outstanding = state.probedAt.values.map { now > $0 ? now - $0 : 0 }.max() ?? 0
            let measured = CopyPace.Sample(
                lateness: max(state.lateness, outstanding),
                // The count decreases when a bucket is deleted.
                operations: operations > state.operations ? operations - state.operations : 0
            )
            state.pace.look(measured, now: now)
            state.lateness = 0
            state.operations = operations
            state.isSampling = now < state.usedAt + CopyPacer.idleNanoseconds
            return (exchange(&state.waiting, with: []), state.isSampling)
        }
        for notify in waiting { notify() }
        guard continues else { return }
        probeReactors()
        lane.post(after: CopyPacer.intervalNanoseconds) { [weak self] in self?.sample() }
    }

    /// Posts a probe to every reactor without an outstanding one; its delay is the reactor's
    /// lateness.
    private func probeReactors() {
        for reactor in 0..<environment.lanes.reactorCount {
            let probed = environment.time.monotonicNanoseconds()
            let isDue = state.withLock { state in
                guard state.probedAt[reactor] == nil else { return false }
                state.probedAt[reactor] = probed
                return true
            }
            guard isDue else { continue }
            environment.network.lane(ofReactor: reactor).post { [weak self] in
                guard let self else { return }
                let arrived = environment.time.monotonicNanoseconds()
                state.withLock { state in
                    state.probedAt[reactor] = nil
                    state.lateness = max(state.lateness, arrived &- probed)
                }
            }
        }
    }
}
