internal import Bytes
internal import Replication
package import Seams

/// Holds this node's copying back while its clients have to wait for it: a `CopyPace`, and what it
/// measures.
///
/// One for all connections. While somebody copies, it looks every few milliseconds; else never.
///
/// - Whoever waits is told: at the next look, or at once where nobody looks.
/// - A pace is of the looks that go on: what it was before nobody copied counts no more.
/// - Times that others read are no earlier and no later than a look's own: reactors read the clock
///   before they have the lock, and so does it.
package final class CopyPacer: Sendable {
    private struct State {
        var pace: CopyPace
        /// Those who had no room, to be told when there is some again.
        var waiting: [@Sendable () -> Void] = []
        var isLooking = false
        var usedAt: UInt64 = 0
        /// The worst of the reactors since the last look, and of those that have not come yet.
        var lateness: UInt64 = 0
        var asked: [Int: UInt64] = [:]
        var operations: UInt64 = 0
    }

    private static let interval: UInt64 = 5_000_000
    /// Nobody copied for so long: there is nothing to look at.
    private static let idle: UInt64 = 1_000_000_000

    private let environment: Environment
    private let lane: any Lane
    private let operations: @Sendable () -> UInt64
    private let state: Guarded<State>

    /// - Parameters:
    ///   - environment: The world.
    ///   - lane: Where it looks from.
    ///   - operations: All that clients ever asked for here.
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

    /// How many bytes of copies may be sent now.
    package func room() -> Int {
        let now = environment.time.monotonicNanoseconds()
        let (room, isFirst) = state.withLock { state in
            state.usedAt = max(state.usedAt, now)
            let isFirst = !state.isLooking
            if isFirst {
                state.isLooking = true
                state.pace = CopyPace(now: now)
                state.lateness = 0
            }
            return (state.pace.room, isFirst)
        }
        if isFirst { begin() }
        return room
    }

    package func sent(_ bytes: Int) { state.withLock { $0.pace.sent(bytes) } }

    /// Has `tell` called once there may be room again.
    package func wait(_ tell: @escaping @Sendable () -> Void) {
        let isLooking = state.withLock { state in
            if state.isLooking { state.waiting.append(tell) }
            return state.isLooking
        }
        // The last look came between the question and this.
        if !isLooking { tell() }
    }

    // MARK: Looking

    private func begin() {
        let operations = operations()
        state.withLock { $0.operations = operations }
        askReactors()
        lane.post(after: CopyPacer.interval) { [weak self] in self?.look() }
    }

    private func look() {
        let now = environment.time.monotonicNanoseconds()
        let operations = operations()
        let (waiting, goesOn) = state.withLock { state in
            let outstanding = state.asked.values.map { now > $0 ? now - $0 : 0 }.max() ?? 0
            let sample = CopyPace.Sample(
                lateness: max(state.lateness, outstanding),
                // A bucket that went took its count along.
                operations: operations > state.operations ? operations - state.operations : 0
            )
            state.pace.look(sample, now: now)
            state.lateness = 0
            state.operations = operations
            state.isLooking = now < state.usedAt + CopyPacer.idle
            defer { state.waiting = [] }
            return (state.waiting, state.isLooking)
        }
        for tell in waiting { tell() }
        guard goesOn else { return }
        askReactors()
        lane.post(after: CopyPacer.interval) { [weak self] in self?.look() }
    }

    /// Each says how long it took to come to the question; who has one is not asked another.
    private func askReactors() {
        for reactor in 0..<environment.lanes.reactorCount {
            let asked = environment.time.monotonicNanoseconds()
            let isDue = state.withLock { state in
                guard state.asked[reactor] == nil else { return false }
                state.asked[reactor] = asked
                return true
            }
            guard isDue else { continue }
            environment.network.lane(ofReactor: reactor).post { [weak self] in
                guard let self else { return }
                let came = environment.time.monotonicNanoseconds()
                state.withLock { state in
                    state.asked[reactor] = nil
                    state.lateness = max(state.lateness, came &- asked)
                }
            }
        }
    }
}
