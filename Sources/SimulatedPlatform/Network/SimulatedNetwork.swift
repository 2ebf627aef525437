internal import Bytes
internal import Seams

/// The `Network` seam of one process.
///
/// Each process has its own, because the memory for its clients' connections ends with the process.
struct SimulatedNetwork: Network {
    let process: SimulatedProcess
    /// The memory for received requests and unread replies of all client connections.
    let memory: ConnectionMemory
    let strangers = LoginWatch()
    nonisolated(unsafe) let simulator: PacketSimulator  // tidy:allow one thread, checked on entry

    init(process: SimulatedProcess, simulator: PacketSimulator) {
        self.process = process
        self.simulator = simulator
        let bytesMax = SimulatedConnection.clientBytesMax
        let reactors = process.host.reactorCount
        memory = ConnectionMemory(
            receive: SimulatedConnection.receiveSizes.memory(bytesMax, reactors: reactors),
            keptBytesMax: bytesMax
        )
    }

    var quiescence: Quiescence { process.quiescence }

    /// The reactor's lane.
    ///
    /// Code of a process that died during a turn gets a lane that drops all work.
    func lane(ofReactor index: Int) -> any Lane {
        if process.isDead { return SimulatedLane("gone", process: process, reactor: index) }
        return process.reactors[index]
    }

    func listen(
        on address: SocketAddress,
        for callers: Callers,
        accept: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler
    ) throws(NetworkError) -> any Listener {
        simulator.queue.checkThread()
        let host = process.host
        let isOurs =
            address.host == "0.0.0.0" || address.isLoopback || address.host == host.address
        guard isOurs, !process.isDead else {
            throw NetworkError(
                code: .addressNotAvailable,
                description: "cannot listen on \(address): \(host.address) has no such address"
            )
        }
        let port = address.port == 0 ? simulator.freePort() : address.port
        guard !process.listeners.contains(where: { $0.address.port == port }) else {
            throw NetworkError(
                code: .addressInUse,
                description: "cannot listen on \(address): another listener has this port"
            )
        }
        let listener = SimulatedListener(
            address: SocketAddress(host: address.host, port: port),
            memory: callers.areBounded ? memory : nil,
            process: process,
            accept: accept
        )
        process.listeners.append(listener)
        return listener
    }

    func connect(
        to address: SocketAddress,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable (NetworkError) -> Void
    ) {
        simulator.queue.checkThread()
        guard !process.isDead, !process.hasLeftNetwork else { return }
        let attempt = ConnectionAttempt(
            to: address,
            process: process,
            simulator: simulator,
            connected: connected,
            failed: failed
        )
        attempt.start()
    }

    func resolve(
        _ host: String,
        _ done: @escaping @Sendable (Result<[String], NetworkError>) -> Void
    ) {
        simulator.queue.checkThread()
        guard !process.isDead else { return }
        let isDigits = host.allSatisfy { $0.isNumber || $0 == "." } || host.contains(":")
        let found = isDigits ? [host] : simulator.names[host]
        let lane = process.reactors[0]
        // A name server answers within 0.5 to 1.5 ms.
        lane.post(after: 500_000 + simulator.draw() % 1_000_000) {
            guard let found else {
                return done(
                    .failure(
                        NetworkError(
                            code: .addressNotAvailable,
                            description: "cannot find \(host): no host has this name"
                        )
                    )
                )
            }
            done(.success(found))
        }
    }
}

/// A port that a process listens on.
final class SimulatedListener: Listener, @unchecked Sendable {  // tidy:allow one thread
    let address: SocketAddress
    /// The memory that its connections share; nil for a listener without such a limit.
    let memory: ConnectionMemory?
    let process: SimulatedProcess
    let accept: @Sendable (any ConnectionPort) -> any ConnectionHandler
    private(set) var isClosed = false

    init(
        address: SocketAddress,
        memory: ConnectionMemory?,
        process: SimulatedProcess,
        accept: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler
    ) {
        self.address = address
        self.memory = memory
        self.process = process
        self.accept = accept
    }

    /// Whether a connection attempt to `host` and `port` reaches this listener.
    func answers(to host: String, port: UInt16) -> Bool {
        guard !isClosed, port == address.port else { return false }
        let isLocal = SocketAddress(host: host, port: port).isLoopback
        return address.host == "0.0.0.0" || address.isLoopback == isLocal
    }

    /// Stops accepting and closes the open connections.
    ///
    /// Closes them at once, unless it is called on a reactor, which may be running one of them.
    func close() {
        process.queue.checkThread()
        guard !isClosed, !process.isDead else { return }
        isClosed = true
        process.listeners.removeAll { $0 === self }
        let isReactor = process.queue.current?.reactor != nil
        for connection in process.openConnections where connection.listener === self {
            if isReactor { connection.close() } else { connection.abandon() }
        }
    }
}

/// A connection attempt.
final class ConnectionAttempt {
    private let address: SocketAddress
    private let process: SimulatedProcess
    private let simulator: PacketSimulator
    private let connected: @Sendable (any ConnectionPort) -> any ConnectionHandler
    private let failed: @Sendable (NetworkError) -> Void
    private let lane: SimulatedLane
    private let reactor: Int
    private var isOver = false

    init(
        to address: SocketAddress,
        process: SimulatedProcess,
        simulator: PacketSimulator,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable (NetworkError) -> Void
    ) {
        self.address = address
        self.process = process
        self.simulator = simulator
        self.connected = connected
        self.failed = failed
        reactor = process.placeConnection()
        lane = process.reactors[reactor]
    }

    func start() {
        let time = simulator.queue.time
        time.add(
            at: time.now + PacketSimulator.connectNanoseconds,
            .happen { [self] in fail(.other, "timed out") }
        )
        let here = process.host
        // If no machine has the address, the attempt times out.
        guard let there = simulator.host(named: address.host, seenFrom: here) else { return }
        let link = simulator.link(from: here, to: there)
        simulator.carry(60, on: link) { [self] in arrive(at: there) }
    }

    /// The first packet reached the host.
    private func arrive(at there: SimulatedHost) {
        guard !isOver, !process.isDead, there.hasPower, !there.hangsConnects else { return }
        let back = simulator.link(from: there, to: process.host)
        let listener = there.process?.listeners.first {
            $0.answers(to: address.host, port: address.port)
        }
        guard let listener, !there.refusesConnects else {
            simulator.carry(60, on: back) { [self] in fail(.refused, "connection refused") }
            return
        }
        let local = SocketAddress(host: process.host.address, port: simulator.freePort())
        let ours = SimulatedConnection(
            ends: (local: local, peer: address),
            process: process,
            reactor: reactor,
            listener: nil,
            simulator: simulator
        )
        let theirs = SimulatedConnection(
            ends: (local: address, peer: local),
            process: listener.process,
            reactor: listener.process.placeConnection(),
            listener: listener,
            simulator: simulator
        )
        theirs.accept(from: ours, listener.accept)
        theirs.firstArrival = simulator.carry(60, on: back) { [self] in open(ours) }
    }

    /// The answer arrived: opens the connection, or resets it if the attempt has timed out.
    private func open(_ connection: SimulatedConnection) {
        guard !isOver, !process.isDead else { return connection.refuse() }
        isOver = true
        connection.open(connected)
    }

    private func fail(_ code: NetworkError.Code, _ reason: String) {
        guard !isOver, !process.isDead else { return }
        isOver = true
        process.loads[reactor] -= 1
        let error = NetworkError(
            code: code,
            description: "cannot connect to \(address): \(reason)"
        )
        lane.post { [failed] in failed(error) }
    }
}
