internal import Seams
internal import Wire

/// What the client's lane knows of one node: its connection, and what is under way or waits there.
final class ClusterNode {
    enum State {
        /// Can become: connecting.
        case idle
        /// Can become: ready, idle, resting.
        case connecting(since: UInt64)
        /// Can become: resting, idle.
        case ready
        /// The last connection was lost or could not be had. Can become: connecting.
        case resting(until: UInt64)
    }

    /// What an answer is for.
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
    /// In the order they came; an operation that is over or elsewhere is passed over.
    var waiting: [Operation] = []
    var flights: [UInt64: Flight] = [:]
    /// Requests that left and have no answer, also those nobody waits for any more.
    var unanswered = 0
    /// When it last said something, or was asked after a pause.
    var heard: UInt64 = 0
    var isProbed = false
    var isAskedForMap = false
    var isSelecting = false
    /// Attempts to connect in a row that came to nothing.
    var failures = 0
    /// How the last login was refused, if it was.
    var failure: Handshake.Failure?
    /// Whether it was the present connection that was refused.
    var isRefused = false
    /// Why we hung up, if we did.
    var verdict: String?
    /// Why there is no connection, in words.
    var trouble: String?

    init(_ address: SocketAddress) {
        self.address = address
    }

    var isReady: Bool { if case .ready = state { true } else { false } }

    var pushesMaps: Bool { features.contains(.clusterMapNotification) }
}
