internal import Seams
internal import Wire

/// A node's state on the client's lane: its connection, and its waiting and unanswered operations.
final class ClusterNode {
    enum State {
        /// Can become: connecting.
        case idle
        /// Can become: ready, idle, backingOff.
        case connecting(since: UInt64)
        /// Can become: backingOff, idle.
        case ready
        /// The last connection was lost or failed. Can become: connecting.
        case backingOff(until: UInt64)
    }

    /// The request that a ticket belongs to.
    enum Flight {
        case operation(Operation)
        case map
        case probe
        case selection
    }

    let address: SocketAddress
    var state = State.idle
    var connection: NodeConnection?
    var features = FeatureSet()
    /// In the order of arrival; operations that are over or at another node are skipped.
    var waiting: [Operation] = []
    var flights: [UInt64: Flight] = [:]
    /// The number of unanswered requests, including those whose operations are over.
    var unanswered = 0
    /// When the node last sent something, or when a first request was sent after a pause.
    var lastReceived: UInt64 = 0
    var isProbed = false
    var isMapRequested = false
    var isSelecting = false
    /// Failed attempts to connect since the last success.
    var failures = 0
    /// Why the last login failed; nil if it did not.
    var failure: Handshake.Failure?
    /// Whether `failure` is of the present connection.
    var isRefused = false
    /// Why the client closed the connection; nil if it did not.
    var closeReason: String?
    /// Why there is no connection, as text.
    var trouble: String?

    init(_ address: SocketAddress) { self.address = address }

    var isReady: Bool { if case .ready = state { true } else { false } }

    var pushesMaps: Bool { features.contains(.clusterMapNotification) }
}
