/// A request to another node's admin port.
package struct ProbeRequest: Sendable {
    package var host: String
    package var port: UInt16
    package var path: String
    package var login: (user: String, password: String)?
    /// The form to post; nil for a GET.
    package var form: [(String, String)]?

    package init(
        host: String,
        port: UInt16,
        path: String,
        login: (user: String, password: String)? = nil,
        form: [(String, String)]? = nil
    ) {
        self.host = host
        self.port = port
        self.path = path
        self.login = login
        self.form = form
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
