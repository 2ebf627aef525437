internal import Bytes

/// The current problems for the operator.
///
/// The component that detects a problem raises and clears it.
package final class AlertTable: Sendable {
    private let alerts = Guarded<[String: String]>([:])

    package init() {}

    /// - Parameters:
    ///   - id: Identifies the problem while it lasts.
    ///   - message: Cause and remedy, in a sentence.
    func raise(_ id: String, _ message: String) { alerts.withLock { $0[id] = message } }

    func clear(_ id: String) {
        alerts.withLock { alerts in
            if alerts[id] != nil { alerts[id] = nil }
        }
    }

    func clear(prefix: String) {
        alerts.withLock { alerts in
            alerts = alerts.filter { !$0.key.hasPrefix(prefix) }
        }
    }

    /// The raised alerts, ordered by id; empty if there are none.
    package var current: [(id: String, message: String)] {
        alerts.withLock { alerts in
            alerts.map { ($0.key, $0.value) }.sorted { $0.0 < $1.0 }
        }
    }
}
