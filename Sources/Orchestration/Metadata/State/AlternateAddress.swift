/// The address by which clients outside the cluster's own network reach a node.
///
/// The client selects it, by comparing its bootstrap address or by its own setting. If no ports are
/// given, the node's own ports apply.
package struct AlternateAddress: Hashable, Sendable {
    /// Service names, as in configurations, for which a port may be given.
    package static let services = ["mgmt", "kv", "capi", "mgmtSSL", "kvSSL", "capiSSL"]

    /// The external port of one service.
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

    /// The REST form, as it was set; has `ports` only if some were given.
    package var json: JSONText {
        ports.isEmpty
            ? ["external": ["hostname": .string(host)]] : json(ports: Self.object(ports))
    }

    /// The form of configurations, always with `ports`: some clients crash if these are missing.
    ///
    /// - Parameters:
    ///   - own: The node's own ports as JSON, used if no alternate ports were given.
    ///   - listening: The node's own ports. A port given for a service without one leads nowhere and
    ///     is left out.
    /// - Returns: The JSON object.
    func json(ports own: JSONText, listening: NodePorts) -> JSONText {
        let served = ports.filter { Self.isServed($0.service, by: listening) }
        return json(ports: ports.isEmpty ? own : Self.object(served))
    }

    private static func isServed(_ service: String, by ports: NodePorts) -> Bool {
        switch service {
        case "capi": ports.views != 0
        case "mgmtSSL": ports.adminTLS != 0
        case "kvSSL": ports.dataTLS != 0
        // Views have no port with TLS.
        case "capiSSL": false
        default: true
        }
    }

    private static func object(_ ports: [Port]) -> JSONText {
        .object(ports.map { ($0.service, .number($0.number)) })
    }

    private func json(ports: JSONText) -> JSONText {
        ["external": ["hostname": .string(host), "ports": ports]]
    }
}
