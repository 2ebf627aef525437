/// Why the cluster service could not begin, or could not keep what it was told.
package struct ClusterError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// The state was written by a newer release.
        case newerSchema
        /// The state's bytes are not what was written.
        case damaged
        /// The disk did not take it, or did not give it back.
        case disk
        /// The node is stopping and takes nothing new.
        case stopping
        /// Too few voters answer, or no leader was found in time: it may still happen.
        case noQuorum
        /// Only the leader can do it, and this node is none.
        case notLeader
        /// The members cannot be changed like that.
        case refused
    }

    package let code: Code
    /// A sentence for an operator.
    package let description: String

    package init(code: Code, description: String) {
        self.code = code
        self.description = description
    }

    static let stopping = ClusterError(code: .stopping, description: "the node is stopping")
}
