internal import Bytes

/// The logins on a node whose passwords crossed the network readable: PLAIN without TLS, by a client on
/// another machine.
package final class PlainLogins: Sendable {
    private struct State {
        var count: UInt64 = 0
        var names: Set<String> = []
        var report: (@Sendable (String) -> Void)?
    }

    /// Names that are remembered: the logins of further users are only counted.
    private static let namesMax = 1_000

    private let state = Guarded(State())

    package init() {}

    /// How many there were since the node's start.
    package var count: UInt64 { state.withLock { $0.count } }

    /// Calls `report` for the first such login of each user from now on, on the thread of the login.
    package func onFirst(_ report: @escaping @Sendable (_ user: String) -> Void) {
        state.withLock { $0.report = report }
    }

    package func record(_ user: String) {
        let report = state.withLock { state in
            state.count += 1
            let isFirst =
                state.names.count < Self.namesMax && state.names.insert(user).inserted
            return isFirst ? state.report : nil
        }
        report?(user)
    }
}
