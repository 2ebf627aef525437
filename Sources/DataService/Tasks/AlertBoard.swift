internal import Bytes

/// What is wrong now, for the operator: raised by whoever notices, cleared by the same.
package final class AlertBoard: Sendable {
    private let alerts = Guarded<[String: String]>([:])

    package init() {}

    /// - Parameters:
    ///   - id: The same while the same thing is wrong.
    ///   - message: Cause and cure, in a sentence.
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

    /// By id.
    package var current: [(id: String, message: String)] {
        alerts.withLock { alerts in
            alerts.map { ($0.key, $0.value) }.sorted { $0.0 < $1.0 }
        }
    }
}
