/// Where clients outside the cluster's own network reach a node.
///
/// They choose it themselves, by the address that they came by or because they are told to; without
/// ports, those of the node itself count there too.
package struct AlternateAddress: Hashable, Sendable {
    /// Names of services as configurations have them, of which a port may be given.
    package static let services = ["mgmt", "kv", "capi", "mgmtSSL", "kvSSL", "capiSSL"]

    package struct Port: Hashable, Sendable {
        package let service: String
        package let number: UInt16

        package init(service: String, number: UInt16) {
            self.service = service
            self.number = number
        }
    }

    package var host: String
    /// In the order of `services`, each at most once.
    package var ports: [Port]

    package init(host: String, ports: [Port]) {
        self.host = host
        self.ports = ports
    }

    /// As REST shows it: ports only where they were given.
    package var json: JSONText {
        ports.isEmpty ? ["external": ["hostname": .string(host)]] : json(ports: .object([]))
    }

    /// As configurations have it, always with ports: some clients end without them.
    ///
    /// - Parameter own: Those of the node itself, which count where none were given.
    /// - Returns: The object.
    func json(ports own: JSONText) -> JSONText {
        let given = JSONText.object(ports.map { ($0.service, .number($0.number)) })
        return ["external": ["hostname": .string(host), "ports": ports.isEmpty ? own : given]]
    }
}
