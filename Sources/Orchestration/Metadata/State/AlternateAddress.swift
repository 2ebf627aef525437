package import Bytes

/// The address by which clients outside the cluster's own network reach a node.
///
/// The client selects it, by comparing its bootstrap address or by its own setting. If no ports are
/// given, the node's own ports apply.
package struct AlternateAddress: Hashable, Sendable, CodedFields {
    /// Service names, as in configurations, for which a port may be given.
    package static let services = ["mgmt", "kv", "capi", "mgmtSSL", "kvSSL", "capiSSL"]

    /// The external port of one service.
    package struct Port: Hashable, Sendable {
        package internal(set) var service: String
        package internal(set) var number: UInt16

        package init(service: String, number: UInt16) {
            self.service = service
            self.number = number
        }
    }

    package var host = ""
    /// In the order of `services`, each at most once.
    package var ports: [Port] = []

    package init() {}

    package init(host: String, ports: [Port]) {
        self.host = host
        self.ports = ports
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&host, "host")
        let blank = Port(service: "", number: 0)
        try coder.list(&ports, "ports", blank: blank) { coder, port throws(CodingFailure) in
            try coder.field(&port.service, "service")
            try coder.fixed(&port.number, "port")
        }
    }
}
