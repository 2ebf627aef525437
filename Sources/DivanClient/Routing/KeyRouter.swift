package import Bytes
package import Seams
package import Vocabulary

/// Routes requests by a cluster map.
package struct KeyRouter: Sendable {
    /// Which of a vBucket's copies a request is for.
    package enum Copy: Hashable, Sendable {
        case active
        /// The replica of this number, from 1.
        case replica(Int)

        package var column: Int {
            switch self {
            case .active: 0
            case .replica(let number): number
            }
        }
    }

    package struct Route: Hashable, Sendable {
        package let vBucket: VBucketID
        package let node: SocketAddress
    }

    package let map: ClusterMap

    package init(_ map: ClusterMap) { self.map = map }

    package func vBucket(of key: ByteView) -> VBucketID { map.vBucket(of: key) }

    /// The node to send a request to; nil if the map names no node for the copy.
    ///
    /// If that node is `refuser`, which has answered "not my vBucket", the route is to the node
    /// that the vBucket moves to, if the map names it: an old owner refuses before the map changes.
    package func route(
        _ vBucket: VBucketID,
        _ copy: Copy = .active,
        refusedBy refuser: SocketAddress? = nil
    ) -> Route? {
        guard let index = map.node(of: vBucket, copy: copy.column) else { return nil }
        let node = map.nodes[index]
        if node == refuser, let next = map.forwardNode(of: vBucket, copy: copy.column) {
            return Route(vBucket: vBucket, node: map.nodes[next])
        }
        return Route(vBucket: vBucket, node: node)
    }
}
