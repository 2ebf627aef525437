package import Vocabulary

/// The ports a node serves; 0 where it serves none.
package struct NodePorts: Hashable, Sendable {
    package var admin: UInt16
    package var data: UInt16
    package var adminTLS: UInt16
    package var dataTLS: UInt16
    /// For the other nodes.
    package var peer: UInt16

    package init(
        admin: UInt16,
        data: UInt16,
        adminTLS: UInt16 = 0,
        dataTLS: UInt16 = 0,
        peer: UInt16 = 0
    ) {
        self.admin = admin
        self.data = data
        self.adminTLS = adminTLS
        self.dataTLS = dataTLS
        self.peer = peer
    }
}

/// How far a node belongs to the cluster.
package enum NodeMembership: UInt8, Sendable {
    /// Being added; nobody sees it yet. Can become: inactiveAdded, or nothing at all.
    case joining = 0
    /// Waits for a rebalance. Can become: active, inactiveFailed, or nothing at all.
    case inactiveAdded = 1
    /// Holds data. Can become: inactiveFailed, or nothing at all.
    case active = 2
    /// Was failed over. Can become: inactiveAdded, or nothing at all.
    case inactiveFailed = 3
    /// A new epoch began without it: it is none of us any more, and only stays until nothing is
    /// expected from it. Becomes nothing at all.
    case leftBehind = 4

    package var name: String {
        switch self {
        case .joining, .inactiveAdded: "inactiveAdded"
        case .active: "active"
        case .inactiveFailed, .leftBehind: "inactiveFailed"
        }
    }
}

/// How a node that was failed over comes back with the next rebalance.
package enum RecoveryType: UInt8, Sendable {
    case none = 0
    /// Its old copies are dropped first.
    case full = 1
    /// Its old copies are brought up to date.
    case delta = 2

    package var name: String {
        switch self {
        case .none: "none"
        case .full: "full"
        case .delta: "delta"
        }
    }
}

/// Nodes that may fail together, such as a rack.
package struct ServerGroup: Hashable, Sendable {
    package static let first = ServerGroup(name: "Group 1", uuid: "0")

    package var name: String
    package var uuid: String

    package init(name: String, uuid: String) {
        self.name = name
        self.uuid = uuid
    }
}

/// What the cluster knows of one of its nodes.
///
/// - `number` is never given to another node, also not after this one left: vBucket rows name
///   nodes by it.
package struct NodeRecord: Hashable, Sendable {
    package internal(set) var number: NodeNumber
    /// 32 hexadecimal digits, made when the data directory was.
    package internal(set) var uuid: String
    /// An IP address in digits or a name, without brackets.
    package internal(set) var host: String
    package internal(set) var ports: NodePorts
    /// The name of its server group.
    package internal(set) var group = ServerGroup.first.name
    package internal(set) var services = ["kv"]
    package internal(set) var membership = NodeMembership.active
    package internal(set) var recovery = RecoveryType.none
    /// Index of the last entry that took writing of something from it; 0 where none did.
    package internal(set) var fencedAt: UInt64 = 0

    /// Bytes that its machine, or container, gives it, as it last said; 0 if it never did.
    package internal(set) var memoryTotal: UInt64 = 0

    /// For clients that cannot reach `host`.
    package internal(set) var alternate: AlternateAddress?

    package init(number: NodeNumber, uuid: String, host: String, ports: NodePorts) {
        self.number = number
        self.uuid = uuid
        self.host = host
        self.ports = ports
    }

    /// The node's name in admin requests, unique also when several nodes share a machine.
    package var otpNode: String { "n_\(ports.admin)@\(host)" }

    /// Reached from its own machine only, so that it is known by the address a client used.
    package var isLoopback: Bool {
        host.hasPrefix("127.") || host == "::1" || host == "localhost"
    }
}
