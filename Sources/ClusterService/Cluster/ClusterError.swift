/// Why the cluster service could not start, store a change, or have it agreed on.
package struct ClusterError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// Another version wrote the state, or the cluster uses a feature level above this node's.
        case otherFormat
        /// Stored bytes do not match their checksum, or are missing.
        case damaged
        /// The disk could not be read or written.
        case disk
        /// The node is stopping and accepts no new request.
        case stopping
        /// Too few voters answer, or they did not agree in time; the change may still be applied.
        case noQuorum
        /// Only the leader can do it, and this node does not lead.
        case notLeader
        /// The members cannot be changed in this way.
        case refused
    }

    package let code: Code
    /// A sentence for an operator.
    package let description: String

    static let stopping = ClusterError(code: .stopping, description: "the node is stopping")
}
