package import Credentials
package import Seams
package import Vocabulary
package import Wire

/// Where a node listens for other nodes.
package struct PeerAddress: Hashable, Sendable {
    /// A name or an IP address.
    package var host: String
    package var port: UInt16
    /// Where it is known: whoever has the number without the UUID is another node.
    package var uuid: String?

    package init(host: String, port: UInt16, uuid: String? = nil) {
        self.host = host
        self.port = port
        self.uuid = uuid
    }
}

/// The nodes of the cluster, as this node knows it.
package struct PeerDirectory: Hashable, Sendable {
    package var nodes: [NodeNumber: PeerAddress]
    /// All numbers up to this one have been given to nodes; 0 where that is not known.
    ///
    /// Those that are not in `nodes` have left, and are told so.
    package var highestGiven: NodeNumber
    /// The groups that this node's own one came out of.
    ///
    /// Two epochs that were formed beside each other are two clusters: neither may send the other's
    /// nodes away.
    package var pastGroups: [UInt64]

    package init(
        _ nodes: [NodeNumber: PeerAddress] = [:],
        highestGiven: NodeNumber = NodeNumber(0),
        pastGroups: [UInt64] = []
    ) {
        self.nodes = nodes
        self.highestGiven = highestGiven
        self.pastGroups = pastGroups
    }
}

/// Who is at the other end of a connection between nodes.
package struct PeerIdentity: Hashable, Sendable {
    package let node: NodeNumber
    package let nodeUUID: String
    package let service: PeerService
    /// False for a stranger (`join`): then all this is only what it says.
    package let isProved: Bool

    init(_ claim: PeerClaim, _ service: PeerService) {
        node = claim.node
        nodeUUID = claim.nodeUUID
        self.service = service
        isProved = service != .join
    }
}

/// A connection to another node, as its handler sees it.
package protocol PeerPort: ConnectionPort {
    var identity: PeerIdentity { get }
}

/// Why a connection to another node did not come about.
package enum PeerFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The directory has no such node.
    case unknownNode(NodeNumber)
    /// This node does not know yet who it is.
    case noIdentity
    case unreachable(NetworkError)
    case refused(PeerRefusal)
    case timedOut
    /// The connection ended during the handshake, or this node's identity changed.
    case closed

    package var description: String {
        switch self {
        case .unknownNode(let node): "there is no node \(node)"
        case .noIdentity: "this node has no identity yet"
        case .unreachable(let error): error.description
        case .refused(let refusal): refusal.description
        case .timedOut: "the other node did not answer in time"
        case .closed: "the connection ended before it was established"
        }
    }
}
