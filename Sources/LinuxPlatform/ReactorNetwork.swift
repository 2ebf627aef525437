package import Bytes
internal import Glibc
package import Seams
internal import Synchronization

/// The network of Linux: TCP served by reactor threads.
package final class ReactorNetwork: Network {
    package let quiescence: Quiescence
    package let memory: ConnectionMemory
    package let strangers: LoginWatch
    private let reactors: [Reactor]
    private let trace: any Trace
    private let resolver = Resolver()
    /// The last listener's number; listeners are numbered from 1, and 0 means outgoing connections.
    private let numbers = Atomic<UInt64>(0)

    package init(reactors count: Int, limits: ReactorLimits, trace: any Trace) {
        let quiescence = Quiescence(reactorCount: count)
        self.quiescence = quiescence
        self.trace = trace
        strangers = LoginWatch(within: limits.descriptors.plan)
        memory = ConnectionMemory(
            receive: limits.receiveSizes.memory(limits.clientInputBytesMax, reactors: count),
            keptBytesMax: limits.clientKeptBytesMax
        )
        reactors = (0..<count).map {
            Reactor(index: $0, limits: limits, quiescence: quiescence, trace: trace)
        }
    }

    package func lane(ofReactor index: Int) -> any Lane { reactors[index] }

    /// Claims a port and serves its connections on all reactors.
    ///
    /// - Throws: `NetworkError` if the port cannot be claimed or the network has stopped.
    package func listen(
        on address: SocketAddress,
        for callers: Callers,
        accept: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler
    ) throws(NetworkError) -> any Listener {
        let (descriptor, claimed) = try PortListener.claim(address)
        let number = numbers.add(1, ordering: .relaxed).newValue
        let loop = reactors[Int(number) % reactors.count]
        let listener = PortListener(
            PortListener.Claim(
                number: number,
                descriptor: descriptor,
                memory: callers.areBounded ? memory : nil,
                security: callers.security
            ),
            loop: loop,
            reactors: reactors,
            accept: accept
        )
        let isPosted = loop.postIfRunning { listener.start() }
        guard isPosted else {
            Glibc.close(descriptor)
            throw SystemError.network(ECANCELED, "listen on", at: address)
        }
        return ClaimedPort(address: claimed) { [reactors] in
            ReactorNetwork.close(listener, on: loop, reactors: reactors)
        }
    }

    package func connect(
        to address: SocketAddress,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable (NetworkError) -> Void
    ) {
        let loop = Reactor.leastBusy(of: reactors)
        let socket = OutgoingSocket(
            to: address,
            loop: loop,
            connected: connected,
            failed: failed
        )
        guard !loop.postIfRunning({ socket.start() }) else { return }
        loop.load.subtract(1, ordering: .relaxed)
        failed(SystemError.network(ECANCELED, "connect to", at: address))
    }

    package func resolve(
        _ host: String,
        _ done: @escaping @Sendable (Result<[String], NetworkError>) -> Void
    ) { resolver.resolve(host, done) }

    /// The number of connections of each reactor.
    package var loads: [Int] { reactors.map { $0.load.load(ordering: .relaxed) } }

    /// Closes all sockets and ends the reactors' threads; must not be called on one of them.
    package func stop() { for reactor in reactors { reactor.stop() } }

    /// Closes a listener and its connections.
    ///
    /// Returns when they are closed, unless it was called on a reactor, which cannot wait for
    /// itself.
    private static func close(_ listener: PortListener, on loop: Reactor, reactors: [Reactor]) {
        let isReactor = reactors.contains { $0.isCurrent }
        let remaining = Gate(count: reactors.count)
        loop.runOrPost { listener.stop() }
        for reactor in reactors {
            let isPosted = reactor.postIfRunning {
                reactor.closeConnections(of: listener.number)
                remaining.pass()
            }
            if !isPosted { remaining.pass() }
        }
        if !isReactor { remaining.wait() }
    }
}

/// A claimed port that can be closed.
private struct ClaimedPort: Listener {
    let address: SocketAddress
    let onClose: @Sendable () -> Void

    func close() { onClose() }
}
