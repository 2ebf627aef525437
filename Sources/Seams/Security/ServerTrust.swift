package import Bytes
internal import Vocabulary

/// The client's side of secured connections with servers: which servers it believes.
package protocol ServerTrust: Sendable {
    /// A connection with a server, which is open once the server has proved that it is `host`.
    ///
    /// - Parameter host: The name or the address that the client was given.
    /// - Returns: The channel, whose user sends nothing before it is open.
    func makeChannel(host: String) -> any SecureChannel
}

/// A network whose outgoing connections are secured, and that addresses hosts by name: the certificate of
/// a server has the name that the client was given, not the address that a name server has for it.
package struct SecuredNetwork: Network {
    private static let limits = SecureConnection.Limits(
        contentBytesMax: Limits.frameBytesMax,
        outputBytesMax: 256 << 10
    )

    private let network: any Network
    private let trust: any ServerTrust

    package init(_ network: any Network, trust: any ServerTrust) {
        self.network = network
        self.trust = trust
    }

    package var quiescence: Quiescence { network.quiescence }
    package var memory: ConnectionMemory { network.memory }
    package var strangers: LoginWatch { network.strangers }

    package func lane(ofReactor index: Int) -> any Lane { network.lane(ofReactor: index) }

    /// Listens as the network below: connections of clients are not secured by this.
    ///
    /// - Throws: `NetworkError`, as there.
    package func listen(
        on address: SocketAddress,
        for callers: Callers,
        accept: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler
    ) throws(NetworkError) -> any Listener {
        try network.listen(on: address, for: callers, accept: accept)
    }

    /// Connects to the first address of the host that accepts.
    ///
    /// The handler is called as on a plain connection, once the handshake is complete.
    package func connect(
        to address: SocketAddress,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable (NetworkError) -> Void
    ) {
        network.resolve(address.host) { result in
            switch result {
            case .failure(let error): failed(error)
            case .success(let hosts):
                connect(to: address, hosts[...], connected: connected, failed: failed)
            }
        }
    }

    private func connect(
        to address: SocketAddress,
        _ hosts: ArraySlice<String>,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable (NetworkError) -> Void
    ) {
        guard let host = hosts.first else {
            return failed(
                NetworkError(code: .unknownHost, description: "\(address) has no address")
            )
        }
        network.connect(
            to: SocketAddress(host: host, port: address.port),
            connected: { port in
                SecureConnection(
                    trust.makeChannel(host: address.host),
                    limits: Self.limits,
                    inner: TrustingHandler(connected(port))
                )
            },
            failed: { error in
                if hosts.count > 1 {
                    connect(to: address, hosts.dropFirst(), connected: connected, failed: failed)
                } else {
                    failed(error)
                }
            }
        )
    }
}

/// A handler over a channel that has checked the other side itself.
private final class TrustingHandler: SecuredHandler {
    private let inner: any ConnectionHandler
    /// Whether the handshake has ended, with success or with a reason.
    private var isDecided = false

    init(_ inner: any ConnectionHandler) { self.inner = inner }

    func secured(by channel: any SecureChannel) -> Bool {
        isDecided = true
        return true
    }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        inner.receive(input, output: output)
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        inner.wake(input, output: output)
    }

    func broken(_ reason: String) {
        isDecided = true
        inner.broken(reason)
    }

    /// A server that does not speak TLS may end the connection without a word.
    func closed() {
        if !isDecided {
            inner.broken("the server ended the TLS handshake: name its port with TLS")
        }
        inner.closed()
    }
}
