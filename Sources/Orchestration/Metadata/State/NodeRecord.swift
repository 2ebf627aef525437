package import Bytes
package import Vocabulary

/// The ports on which a node listens; 0 for a protocol that it does not serve.
package struct NodePorts: Hashable, Sendable, CodedFields {
    package var admin: UInt16 = 0
    package var data: UInt16 = 0
    package var adminTLS: UInt16 = 0
    package var dataTLS: UInt16 = 0
    /// For the other nodes.
    package var peer: UInt16 = 0
    /// For design documents and view queries.
    package var views: UInt16 = 0
    package var viewsTLS: UInt16 = 0

    package init() {}

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

    /// The ports of a node that serves views.
    package init(admin: UInt16, data: UInt16, peer: UInt16, views: UInt16) {
        self.init(admin: admin, data: data, peer: peer)
        self.views = views
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.fixed(&admin, "admin port")
        try coder.fixed(&data, "data port")
        try coder.fixed(&adminTLS, "admin port with TLS")
        try coder.fixed(&dataTLS, "data port with TLS")
        try coder.fixed(&peer, "peer port")
        try coder.fixed(&views, "views port")
        try coder.fixed(&viewsTLS, "views port with TLS")
    }
}

/// A node's membership state.
package enum NodeMembership: UInt8, Sendable {
    /// Being added; its join has not completed. Can become: inactiveAdded, or be removed.
    case joining = 0
    /// Waits for a rebalance. Can become: active, inactiveFailed, or be removed.
    case inactiveAdded = 1
    /// Holds data. Can become: inactiveFailed, or be removed.
    case active = 2
    /// Was failed over. Can become: inactiveAdded, or be removed.
    case inactiveFailed = 3
    /// A new epoch began without it: it is no member any more. Its record stays until no vBucket
    /// refers to it. Can become: removed. Every other state can become this one.
    case leftBehind = 4

    package var name: String {
        switch self {
        case .joining, .inactiveAdded: "inactiveAdded"
        case .active: "active"
        case .inactiveFailed, .leftBehind: "inactiveFailed"
        }
    }
}

/// How the next rebalance brings a failed-over node back.
package enum RecoveryType: UInt8, Sendable {
    case none = 0
    /// Its old copies are deleted first.
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

/// A set of nodes that may fail together, such as a rack.
package struct ServerGroup: Hashable, Sendable, CodedFields {
    package static let first = ServerGroup(name: "Group 1", uuid: "0")

    package var name = ""
    package var uuid = ""

    package init() {}

    package init(name: String, uuid: String) {
        self.name = name
        self.uuid = uuid
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&name, "name")
        try coder.field(&uuid, "UUID")
    }
}

/// The agreed record of one node.
///
/// - `number` is never reused, even after the node was removed: vBucket chains name nodes by it.
package struct NodeRecord: Hashable, Sendable, CodedFields {
    package internal(set) var number = NodeNumber(0)
    /// 32 hexadecimal digits, generated with the node's data directory.
    package internal(set) var uuid = ""
    /// A numeric IP address or a host name, without brackets.
    package internal(set) var host = ""
    package internal(set) var ports = NodePorts()
    /// The public keys by which other nodes know it; they never change.
    package internal(set) var keys = NodeKeys()
    /// The name of its server group.
    package internal(set) var group = ServerGroup.first.name
    package internal(set) var services = ["kv"]
    package internal(set) var membership = NodeMembership.active
    package internal(set) var recovery = RecoveryType.none
    /// Index of the newest entry that revoked its right to write a vBucket; 0 if none did.
    package internal(set) var fencedAt: UInt64 = 0

    /// Bytes of memory that its machine or container provides, as last reported; 0 if never
    /// reported.
    package internal(set) var memoryTotal: UInt64 = 0

    /// The highest feature level that the node announced.
    package internal(set) var level = FeatureLevel.lowest

    /// The address for clients that cannot reach `host`; nil if none is set.
    package internal(set) var alternate: AlternateAddress?

    package init() {}

    /// The node's name in admin requests; unique even if several nodes share a machine.
    package var otpNode: String { "n_\(ports.admin)@\(host)" }

    /// Whether only its own machine can reach it; configurations then name it by the address that
    /// the client used.
    package var isLoopback: Bool {
        host.hasPrefix("127.") || host == "::1" || host == "localhost"
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&number, "number")
        try coder.field(&uuid, "UUID")
        try coder.field(&host, "host")
        try coder.field(&ports, "ports")
        try coder.field(&keys, "keys")
        try coder.field(&group, "group")
        try coder.field(&services, "services")
        try coder.choice(&membership, "membership")
        try coder.choice(&recovery, "recovery")
        try coder.field(&fencedAt, "newest fence")
        try coder.field(&memoryTotal, "memory")
        try coder.field(&level, "feature level")
        try coder.field(&alternate, "alternate address")
    }
}
