/// What a connection between nodes is for; named in its first message.
package enum PeerService: UInt8, Hashable, Sendable, CaseIterable {
    /// Frames of the cluster service: Raft, beats, commands.
    case control = 1
    /// Change streams between data services.
    case changes = 2
    /// The first words with a node that is in no cluster of ours yet, and knows no secret.
    case join = 3
    /// Between members of different epochs of one cluster: to bring those behind into the newer one.
    case epoch = 4
}
