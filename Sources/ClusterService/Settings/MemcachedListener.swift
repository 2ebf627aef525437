internal import Bytes
internal import Orchestration
internal import Seams

/// The listener for plain memcached clients, as the cluster service sees it.
///
/// Such a client knows one node and no map. So the listener serves while its node is alone, and
/// refuses requests while the cluster has more nodes.
package final class MemcachedListener: Sendable {
    /// The bucket it serves; it need not exist.
    package let bucket: String
    /// Nil until the node knows its cluster.
    private let isServing = Guarded<Bool?>(nil)
    private let serve: @Sendable (Bool) -> Void

    /// - Parameters:
    ///   - bucket: The bucket it serves.
    ///   - serve: Makes the listener serve, or refuse requests.
    package init(bucket: String, serve: @escaping @Sendable (Bool) -> Void) {
        self.bucket = bucket
        self.serve = serve
    }

    /// Why requests are refused in a cluster of so many nodes; nil if they are not.
    ///
    /// - Parameters:
    ///   - bucket: The bucket that the listener serves.
    ///   - nodes: How many nodes the cluster has.
    /// - Returns: The cause, and what to do.
    package static func refusal(ofBucket bucket: String, nodes: Int) -> String? {
        guard nodes > 1 else { return nil }
        return "The memcached port (--memcached-bucket \(bucket)) refuses requests: the cluster "
            + "has \(nodes) nodes, and memcached clients reach the documents of one node alone. "
            + "Use Couchbase clients, and start the node without --memcached-port."
    }

    /// Follows the number of nodes.
    ///
    /// - Returns: What changed, for the log; nil if nothing did, or if it serves from the start.
    func follow(nodes: Int) -> String? {
        let refusal = Self.refusal(ofBucket: bucket, nodes: nodes)
        let before = isServing.withLock { isServing in
            defer { isServing = refusal == nil }
            return isServing
        }
        guard before != (refusal == nil) else { return nil }
        serve(refusal == nil)
        if let refusal { return refusal }
        return before == nil
            ? nil : "The memcached port serves bucket \(bucket) again: this node is alone."
    }
}

extension MapApplier {
    /// Has the listener for plain memcached clients refuse requests once there are other nodes, and
    /// serve again once there are none.
    func followMemcachedListener() {
        guard let listener = cluster.settings.memcached else { return }
        let nodes = cluster.state.members.count
        guard let news = listener.follow(nodes: nodes) else { return }
        cluster.logEvent(nodes > 1 ? .warning : .info, .node, news)
    }
}
