package import Bytes
internal import Glibc
package import Seams
internal import Synchronization

/// The network of Linux: a reactor thread a core.
package final class ReactorNetwork: Network {
    package let quiescence: Quiescence
    package let memory: ConnectionMemory
    private let reactors: [Reactor]
    private let trace: any Trace
    private let resolver = Resolver()
    /// Listeners are numbered from 1; 0 stands for connections we opened.
    private let numbers = Atomic<UInt64>(0)

    package init(reactors count: Int, limits: ReactorLimits, trace: any Trace) {
        let quiescence = Quiescence(reactorCount: count)
        self.quiescence = quiescence
        self.trace = trace
        memory = ConnectionMemory(
            receive: limits.receiveSizes.memory(limits.clientInputBytesMax, reactors: count),
            keptBytesMax: limits.clientKeptBytesMax
        )
        reactors = (0..<count).map {
            Reactor(index: $0, limits: limits, quiescence: quiescence, trace: trace)
        }
    }

    package func lane(ofReactor index: Int) -> any Lane { reactors[index] }

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
                memory: callers == .clients ? memory : nil
            ),
            loop: loop,
            reactors: reactors,
            accept: accept
        )
        let isTaken = loop.postIfRunning { listener.start() }
        guard isTaken else {
            Glibc.close(descriptor)
            throw SystemError.network(ECANCELED, "listen on", address)
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
        failed(SystemError.network(ECANCELED, "connect to", address))
    }

    package func resolve(
        _ host: String,
        _ done: @escaping @Sendable (Result<[String], NetworkError>) -> Void
    ) { resolver.resolve(host, done) }

    /// How many connections each reactor has.
    package var loads: [Int] { reactors.map { $0.load.load(ordering: .relaxed) } }

    /// Closes everything and ends the reactors' threads; not called from one of them.
    package func stop() { for reactor in reactors { reactor.stop() } }

    /// Closes a listener and its connections.
    ///
    /// Returns when that is done, unless a reactor called: it cannot wait for itself.
    private static func close(_ listener: PortListener, on loop: Reactor, reactors: [Reactor]) {
        let isReactor = reactors.contains { $0.isCurrent }
        let remaining = Gate(count: reactors.count)
        loop.runOrPost { listener.stop() }
        for reactor in reactors {
            let isTaken = reactor.postIfRunning {
                reactor.closeConnections(of: listener.number)
                remaining.pass()
            }
            if !isTaken { remaining.pass() }
        }
        if !isReactor { remaining.wait() }
    }
}

/// A claimed port that can be given back.
private struct ClaimedPort: Listener {
    let address: SocketAddress
    let onClose: @Sendable () -> Void

    func close() { onClose() }
}
