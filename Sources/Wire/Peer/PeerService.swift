/// The purpose of a connection between nodes; sent in its first message.
package enum PeerService: UInt8, Hashable, Sendable, CaseIterable {
    /// Frames of the cluster service: Raft, beats, commands.
    case control = 1
    /// Change streams between data services.
    case changes = 2
    /// Invites a node that is not in the cluster yet and does not have its secret.
    case join = 3
    /// Between members of different epochs of one cluster: brings the older ones into the newer
    /// epoch.
    case epoch = 4
    /// Queries of a node to the indexes of another one.
    case views = 5
    /// The changes of a node's active copies for an HTTP feed.
    case feeds = 6
}
