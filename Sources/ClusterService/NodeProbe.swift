/// One question to another node's admin port.
package struct ProbeRequest: Sendable {
    package var host: String
    package var port: UInt16
    package var path: String
    package var login: (user: String, password: String)?
    /// What is posted; nil for a question.
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
    /// `localHost`: the address of this machine that was used.
    case answered(status: Int, body: [UInt8], localHost: String)
    /// Why, in words that go into a sentence.
    case unreachable(String)
}

/// What joining needs of HTTP: a node that is to be added is known by its admin port only.
package protocol NodeProbe: Sendable {
    func ask(_ request: ProbeRequest) async -> ProbeAnswer
}
