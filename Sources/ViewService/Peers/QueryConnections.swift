package import Seams
package import Vocabulary

/// Opens connections to other nodes for queries; `Server` implements it with the cluster's transport.
package protocol QueryConnections: Sendable {
    /// Opens a connection to the queries of a node (its `QueryAcceptor`).
    ///
    /// - Parameters:
    ///   - node: The node to connect to.
    ///   - connected: Called on the connection's reactor.
    ///   - failed: Called instead, on any thread, perhaps before this returns. The text has no full
    ///     stop, as it becomes the end of a sentence.
    func connect(
        to node: NodeNumber,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable (String) -> Void
    )
}
