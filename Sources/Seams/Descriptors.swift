internal import Bytes

/// The descriptors of this process: who may open more of them, by `DescriptorPlan`.
///
/// Ports ask before they accept, and count their connections here. All other open descriptors are counted
/// by the kernel from time to time: libraries open files as well, and a count of ours would miss them.
package final class Descriptors: Sendable {
    private struct State {
        var connections: [DescriptorPlan.Use: Int] = [:]
        /// At the last count.
        var others = 0
        var countedAt: UInt64?
        var refusals: [DescriptorPlan.Use: Refusal] = [:]
    }

    private struct Refusal {
        var lastAt: UInt64
        var loggedAt: UInt64
    }

    /// Any number of descriptors, for worlds without a kernel.
    package static let unlimited = Descriptors(limit: Int.max / 2, now: { 0 }, count: { 0 })

    package let plan: DescriptorPlan
    private let now: @Sendable () -> UInt64
    private let count: @Sendable () -> Int
    private let state = Guarded(State())

    /// A count costs some nanoseconds for each descriptor.
    private static let countNanoseconds: UInt64 = 1_000_000_000
    /// While less than half of the descriptors are open, no count can change a decision.
    private static let calmCountNanoseconds: UInt64 = 10_000_000_000
    /// A port that waits asks that often, at most.
    private static let refusalCountNanoseconds: UInt64 = 10_000_000
    /// An alert lasts so long after the last refusal.
    private static let alertNanoseconds: UInt64 = 10_000_000_000

    /// - Parameters:
    ///   - limit: The most descriptors that the process may have open.
    ///   - now: A clock that does not jump, in nanoseconds.
    ///   - count: Counts the open descriptors, without opening one.
    package init(
        limit: Int,
        now: @escaping @Sendable () -> UInt64,
        count: @escaping @Sendable () -> Int
    ) {
        plan = DescriptorPlan(limit: limit)
        self.now = now
        self.count = count
    }

    // MARK: Connections

    /// Whether a port may accept one more connection now.
    package func admits(_ use: DescriptorPlan.Use) -> Bool {
        let now = now()
        return state.withLock { state in
            let interval = interval(state)
            if plan.admits(use, usage(&state, now, within: interval)) { return true }
            if plan.admits(use, usage(&state, now, within: Self.refusalCountNanoseconds)) {
                return true
            }
            state.refusals[use, default: Refusal(lastAt: now, loggedAt: 0)].lastAt = now
            return false
        }
    }

    /// A connection was opened.
    package func opened(_ use: DescriptorPlan.Use) {
        state.withLock { $0.connections[use, default: 0] += 1 }
    }

    /// A connection was closed.
    package func closed(_ use: DescriptorPlan.Use) {
        state.withLock { $0.connections[use, default: 0] -= 1 }
    }

    /// The warning of a port that waits: number and cure; nil if it was logged within the last ten seconds.
    package func warning(of use: DescriptorPlan.Use) -> String? {
        let now = now()
        return state.withLock { state in
            guard let refusal = state.refusals[use],
                refusal.loggedAt == 0 || now - refusal.loggedAt >= Self.alertNanoseconds
            else { return nil }
            state.refusals[use]?.loggedAt = max(now, 1)
            return sentence(use, usage(&state, now, within: Self.countNanoseconds))
        }
    }

    // MARK: Files and reports

    /// Why so many files cannot be opened for good, with the numbers and the cure; nil if they can.
    package func obstacle(toOpening files: Int) -> String? {
        let now = now()
        let usage = state.withLock { state in self.usage(&state, now, within: 0) }
        guard !plan.admitsFiles(files, usage) else { return nil }
        return "This needs \(files) more open files, and \(Self.numbers(usage, plan)). "
            + "The rest is reserved for connections and for files that are open for a moment. \(Self.cure)"
    }

    /// The alert while a port waits for descriptors; nil if none does.
    package var shortage: String? {
        let now = now()
        return state.withLock { state in
            let waiting = DescriptorPlan.Use.allCases.first { use in
                state.refusals[use].map { now - $0.lastAt < Self.alertNanoseconds } ?? false
            }
            return waiting.map { sentence($0, usage(&state, now, within: Self.countNanoseconds)) }
        }
    }

    private func sentence(_ use: DescriptorPlan.Use, _ usage: DescriptorPlan.Usage) -> String {
        let waiting =
            switch use {
            case .clients: "New connections of clients"
            case .administration: "New connections to the admin port"
            case .nodes: "New connections of nodes"
            }
        return
            "\(waiting) wait for descriptors: \(Self.numbers(usage, plan)). The rest is reserved for "
            + "files, nodes and the admin port. \(Self.cure)"
    }

    private static let cure =
        "Raise the limit of open files (ulimit -n, or LimitNOFILE= of the service) and restart the "
        + "node, or close connections."

    private static func numbers(
        _ usage: DescriptorPlan.Usage,
        _ plan: DescriptorPlan
    ) -> String {
        "\(usage.open) of \(plan.limit) descriptors are open (\(usage[.clients]) by clients, "
            + "\(usage[.administration]) by the admin port, \(usage[.nodes]) by nodes, "
            + "\(usage.others) by files and the process)"
    }

    /// The open descriptors, as of at most ten seconds ago.
    package var usage: DescriptorPlan.Usage {
        let now = now()
        return state.withLock { usage(&$0, now, within: Self.calmCountNanoseconds) }
    }

    // MARK: Counting

    private func interval(_ state: State) -> UInt64 {
        let open = state.others + state.connections.values.reduce(0, +)
        return open < plan.limit / 2 ? Self.calmCountNanoseconds : Self.countNanoseconds
    }

    /// The open descriptors, by a count that is at most so old.
    private func usage(
        _ state: inout State,
        _ now: UInt64,
        within nanoseconds: UInt64
    ) -> DescriptorPlan.Usage {
        let connections = state.connections.values.reduce(0, +)
        if state.countedAt.map({ now - $0 >= nanoseconds }) ?? true {
            state.others = max(0, count() - connections)
            state.countedAt = now
        }
        return DescriptorPlan.Usage(
            open: state.others + connections,
            connections: state.connections
        )
    }
}
