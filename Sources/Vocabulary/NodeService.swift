/// The purpose of a stream between two nodes; sent when the stream is opened.
///
/// A new service is one row of `row` and one file that serves it.
package enum NodeService: UInt8, Hashable, Sendable, CaseIterable {
    /// One-way messages of the cluster service: Raft, beats.
    case messages = 1
    /// Large one-way messages of the cluster service: pieces of a snapshot.
    case bulkMessages = 2
    /// A call of the cluster service and its answer.
    case calls = 3
    /// A call to a node that is not in the cluster yet, or from one.
    case join = 4
    /// A call between members of different epochs of one cluster: brings the older ones into the newer
    /// epoch.
    case epoch = 5
    /// The changes of all active copies of a node whose replicas the other node has.
    case copies = 6
    /// A query of a node to the indexes of another one.
    case views = 7
    /// The changes of a node's active copies for an HTTP feed.
    case feeds = 8

    /// The properties of a service for the link of two nodes.
    package struct Row: Sendable {
        /// Which connection has the streams.
        package var connection = Connection.main
        /// Whether the streams send before those of other services.
        package var isUrgent = false
        /// Bytes that either side of a stream sends before the other side has consumed some.
        package var windowBytes = 1 << 20
        /// Bytes of a message.
        package var messageBytesMax = NodeService.callBytesMax
        /// The lowest feature level at which all members understand the service.
        package var level = FeatureLevel.lowest
    }

    /// The connections between two nodes.
    package enum Connection: UInt8, Hashable, Sendable, CaseIterable {
        /// Raft, calls and queries: one for each pair of nodes.
        case main = 1
        /// Copies and feeds, of which Raft must not wait for the bytes that the kernel holds: one for each
        /// pair of nodes.
        case bulk = 2
        /// One call of a node that need not be a member.
        case join = 3
        /// One call of a member that may be of another epoch.
        case epoch = 4

        /// Whether the connection is the only one of its pair of nodes, and stays.
        package var isShared: Bool { self == .main || self == .bulk }
    }

    /// Bytes of a call, of its answer and of a message of the cluster service: the largest document
    /// (20 MiB) with its system attributes (1 MiB) and its metadata.
    package static let callBytesMax = 24 << 20

    package var row: Row {
        switch self {
        case .messages: Row(isUrgent: true)
        case .bulkMessages: Row()
        case .calls: Row(isUrgent: true)
        // Any process that reaches the peer port can make such a call.
        case .join: Row(connection: .join, messageBytesMax: 1 << 20)
        case .epoch: Row(connection: .epoch)
        // The window covers the product of bandwidth and delay of a network between two sites.
        case .copies: Row(connection: .bulk, windowBytes: 4 << 20, messageBytesMax: 32 << 20)
        // The largest request has `keys`: see `QueryLimits`.
        case .views: Row(messageBytesMax: 40 << 20)
        // There is a stream for each of up to 64 feeds and each node, and a slow client's window stays
        // full: with four nodes these are 64 MiB. Four turns are on the way to a client that reads.
        case .feeds:
            Row(connection: .bulk, windowBytes: 256 << 10, messageBytesMax: 32 << 20, level: .first)
        }
    }
}
