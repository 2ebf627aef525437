internal import Bytes
internal import Indexing

/// The builds of indexes of a node, of which `BuildOrder` decides how many run at a time.
package final class IndexBuilds: Sendable {
    private struct State {
        var order: BuildOrder
        var numbers: UInt64 = 0
        /// The callbacks for the beginning of waiting builds, by the build's number.
        var begins: [UInt64: @Sendable () -> Void] = [:]
    }

    /// As in Couchbase Server.
    package static let countMaxDefault = 4

    private let state: Guarded<State>

    /// Builds of which `countMax` run at a time.
    package init(_ countMax: Int = IndexBuilds.countMaxDefault) {
        state = Guarded(State(order: BuildOrder(buildsMax: countMax)))
    }

    /// A build that runs or waits; it leaves when its last reference is gone.
    package final class Build: Sendable {
        private let builds: IndexBuilds
        private let number: UInt64

        fileprivate init(_ builds: IndexBuilds, _ number: UInt64) {
            self.builds = builds
            self.number = number
        }

        /// Whether the build may read documents.
        package var hasBegun: Bool { builds.state.withLock { $0.order.isBuilding(number) } }

        deinit { builds.leave(number) }
    }

    /// Requests a build; `begin` is called from any thread if it waits, when it may begin.
    package func enter(_ begin: @escaping @Sendable () -> Void) -> Build {
        let number = state.withLock { state in
            state.numbers += 1
            if !state.order.enter(state.numbers) { state.begins[state.numbers] = begin }
            return state.numbers
        }
        return Build(self, number)
    }

    /// Sets how many builds run at a time.
    package func limit(to countMax: Int) { begin { $0.order.limit(to: countMax) } }

    private func leave(_ number: UInt64) {
        begin { state in
            state.begins[number] = nil
            return state.order.leave(number)
        }
    }

    /// Carries out a change, and calls the builds that begin by it.
    private func begin(_ change: (inout State) -> [UInt64]) {
        let begins = state.withLock { state in
            change(&state).compactMap { state.begins.removeValue(forKey: $0) }
        }
        for begin in begins { begin() }
    }
}
