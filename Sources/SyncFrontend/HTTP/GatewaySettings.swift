/// The bounds of connections and requests.
package struct GatewaySettings: Sendable {
    /// The value of `Server`.
    package var serverName = "Couchbase Sync Gateway/1.4.1 Divan"
    /// Compress answers for clients that accept it (the configuration's `compressResponses`).
    package var compressesAnswers = true
    /// Open connections of all ports together; further clients wait to be accepted.
    package var connectionsMax = 8_192
    /// Bytes of a request's target and header fields together.
    package var headBytesMax = 64 << 10
    /// Bytes of all request bodies that are collected at one time, beyond 64 KiB each.
    package var bodyBytesMax = 256 << 20
    /// Seconds of each kind of waiting.
    package var timeouts = GatewayTimeouts()

    package init() {}
}

/// How many seconds a connection may wait for its client; each is exact to a second.
package struct GatewayTimeouts: Sendable {
    /// From the first byte of a request, or the start of the connection, to the end of its head.
    package var head = 10
    /// From an answer to the next request.
    package var idle = 120
    /// Between two parts of a body that is read.
    package var body = 60
    /// Without a byte that the client reads, while more waits to be sent.
    package var send = 60
    /// From the last answer to the client's close: a connection that is closed before that may lose the answer.
    package var linger = 2

    package init() {}
}

/// An address to listen on.
package struct GatewayListener: Sendable {
    package let kind: PortKind
    /// An address in digits, or a name.
    package let host: String
    /// 0 claims any free port.
    package let port: Int
    /// Nil for clear text.
    package let security: TLSCertificate?

    package init(_ kind: PortKind, host: String, port: Int, security: TLSCertificate? = nil) {
        self.kind = kind
        self.host = host
        self.port = port
        self.security = security
    }

    /// For messages: `127.0.0.1:4984`, `[::1]:4984`.
    var place: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
