package import Bytes
package import Seams

/// A network without listeners, where no address answers: tests make connections themselves.
package struct NoNetwork: Network {
    package let quiescence: Quiescence
    package let memory = ConnectionMemory(
        receive: ReceiveMemory(bytesMax: 64 << 20, claimBytesMax: 30 << 20, readAheadBytes: 0),
        keptBytesMax: 64 << 20
    )
    package let strangers = LoginWatch()
    /// Addresses by host name; IP addresses resolve to themselves.
    package let names = Guarded<[String: [String]]>([:])
    private let lane: (any Lane)?

    /// A network whose only reactor has the lane `lane`; without a lane no reactor runs.
    package init(
        quiescence: Quiescence = Quiescence(reactorCount: 1),
        lane: (any Lane)? = nil
    ) {
        self.quiescence = quiescence
        self.lane = lane
    }

    package func lane(ofReactor index: Int) -> any Lane {
        guard let lane else { preconditionFailure("no reactor runs") }
        return lane
    }

    package func listen(
        on address: SocketAddress,
        for callers: Callers,
        accept: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler
    ) throws(NetworkError) -> any Listener {
        throw NetworkError(code: .other, description: "there is no network here")
    }

    package func connect(
        to address: SocketAddress,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable (NetworkError) -> Void
    ) {}

    package func resolve(
        _ host: String,
        _ done: @escaping @Sendable (Result<[String], NetworkError>) -> Void
    ) {
        let isName = host.contains { $0.isLetter && !$0.isHexDigit }
        let found = names.withLock { $0[host] } ?? (isName ? [] : [host])
        let unknown = NetworkError(code: .unknownHost, description: "there is no \(host)")
        done(found.isEmpty ? .failure(unknown) : .success(found))
    }
}
