/// The ports a node serves; 0 where it serves none.
package struct NodePorts: Hashable, Sendable {
    package var admin: UInt16
    package var data: UInt16
    package var adminTLS: UInt16
    package var dataTLS: UInt16

    package init(admin: UInt16, data: UInt16, adminTLS: UInt16 = 0, dataTLS: UInt16 = 0) {
        self.admin = admin
        self.data = data
        self.adminTLS = adminTLS
        self.dataTLS = dataTLS
    }
}

/// What the cluster knows of one of its nodes.
///
/// - `number` is never given to another node, also not after this one left: vBucket rows name
///   nodes by it.
package struct NodeRecord: Hashable, Sendable {
    package var number: UInt16
    /// 32 hexadecimal digits, made when the data directory was.
    package var uuid: String
    /// An IP address in digits or a name, without brackets.
    package var host: String
    package var ports: NodePorts

    package init(number: UInt16, uuid: String, host: String, ports: NodePorts) {
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
