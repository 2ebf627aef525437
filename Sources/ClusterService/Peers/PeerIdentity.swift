package import Seams
package import Vocabulary
package import Wire

/// The claim of this node, and the keys that prove it.
package struct PeerIdentityProof: Hashable, Sendable {
    package var claim: PeerClaim
    package var keys: KeyPair

    package init(claim: PeerClaim, keys: KeyPair) {
        self.claim = claim
        self.keys = keys
    }
}

/// Where a node listens for other nodes.
package struct PeerAddress: Hashable, Sendable {
    /// A name or an IP address.
    package var host: String
    package var port: UInt16
    /// The node's public key; nil accepts any.
    package var key: [UInt8]?
    /// Whether the node was added and may not have its invitation yet: it then refuses connections.
    package var isJoining = false

    package init(host: String, port: UInt16, key: [UInt8]?) {
        self.host = host
        self.port = port
        self.key = key
    }
}

/// The nodes of the cluster, as this node knows it.
package struct PeerDirectory: Hashable, Sendable {
    package var nodes: [NodeNumber: PeerAddress]
    /// The highest number that the cluster has assigned to a node; 0 if that is not known.
    ///
    /// A node with such a number that is not in `nodes` was removed, and its connections are
    /// refused so.
    package var highestGiven: NodeNumber
    /// The groups from which this node's own group was formed by new epochs.
    ///
    /// Two epochs that were formed beside each other are two clusters: neither may refuse the
    /// other's nodes as removed.
    package var pastGroups: [UInt64]
    /// The cluster's feature level: a node that announces less is refused.
    package var level: FeatureLevel

    package init(
        _ nodes: [NodeNumber: PeerAddress] = [:],
        highestGiven: NodeNumber = NodeNumber(0),
        pastGroups: [UInt64] = [],
        level: FeatureLevel = .lowest
    ) {
        self.nodes = nodes
        self.highestGiven = highestGiven
        self.pastGroups = pastGroups
        self.level = level
    }
}

/// The identity of the node at the other end of a connection.
package struct PeerIdentity: Hashable, Sendable {
    package let node: NodeNumber
    package let nodeUUID: String
    package let connection: NodeService.Connection
    package let level: FeatureLevel
    /// The public key that the node has proved.
    package let key: [UInt8]
    /// False for a stranger (`join`): then all but the key is only claimed.
    package let isProved: Bool

    init(_ claim: PeerClaim, _ connection: NodeService.Connection, _ key: [UInt8]) {
        node = claim.node
        nodeUUID = claim.nodeUUID
        self.connection = connection
        level = claim.level
        self.key = key
        isProved = connection != .join
    }
}

/// The port of a connection to another node, with the identity of that node.
package final class PeerPort: ConnectionPort {
    package let identity: PeerIdentity
    private let outer: any ConnectionPort

    init(outer: any ConnectionPort, identity: PeerIdentity) {
        self.outer = outer
        self.identity = identity
    }

    package var peer: SocketAddress { outer.peer }
    package var local: SocketAddress { outer.local }
    package var reactor: Int { outer.reactor }
    package func wake() { outer.wake() }
    package func close() { outer.close() }
}

/// Why a connection to another node could not be established.
package enum PeerFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The directory has no such node.
    case unknownNode(NodeNumber)
    /// This node has no identity yet.
    case noIdentity
    case unreachable(NetworkError)
    case refused(PeerRefusal)
    /// The link has as many streams as it may have.
    case tooManyStreams
    /// The cluster's feature level is below the service's.
    case levelTooLow(FeatureLevel)
    case timedOut
    /// The connection ended during the handshake, or this node's identity changed.
    case closed

    /// Whether the kernel of the other machine refused the connection: no process listens there.
    package var isByKernel: Bool {
        if case .unreachable(let error) = self { error.code == .refused } else { false }
    }

    package var description: String {
        switch self {
        case .unknownNode(let node): "there is no node \(node)"
        case .noIdentity: "this node has no identity yet"
        case .unreachable(let error): error.description
        case .refused(let refusal): refusal.description
        case .tooManyStreams: "there are too many requests to it at a time"
        case .levelTooLow(let level):
            "the cluster's feature level is below \(level.number): upgrade all its nodes"
        case .timedOut: "the other node did not answer in time"
        case .closed: "the connection ended before it was established"
        }
    }
}
