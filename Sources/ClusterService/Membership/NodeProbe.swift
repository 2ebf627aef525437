/// A GET request to another node's admin port, without a login.
package struct ProbeRequest: Sendable {
    package var host: String
    package var port: UInt16
    package var path: String

    package init(host: String, port: UInt16, path: String) {
        self.host = host
        self.port = port
        self.path = path
    }
}

package enum ProbeAnswer: Sendable {
    /// `localHost`: this machine's address on the connection.
    case answered(status: Int, body: [UInt8], localHost: String)
    /// The reason, as part of a sentence.
    case unreachable(String)
}

/// HTTP requests for joining: of a node to be added only its admin port is known.
package protocol NodeProbe: Sendable {
    func ask(_ request: ProbeRequest) async -> ProbeAnswer
}
