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

    package var json: JSONText {
        var members: [(String, JSONText)] = [("hostname", .string(host))]
        if !ports.isEmpty {
            members.append(
                ("ports", .object(ports.map { ($0.service, .number($0.number)) }))
            )
        }
        return ["external": .object(members)]
    }
}
