internal import Glibc
internal import Seams
internal import Synchronization

/// A connected socket before its reactor serves it.
struct ConnectedSocket: Sendable {
    let descriptor: Int32
    let peer: SocketAddress
    let local: SocketAddress
    /// The number of the listener that accepted the connection; 0 for an outgoing connection.
    let listener: UInt64
    /// The memory bound that the connection shares; nil if the connection is exempt.
    let memory: ConnectionMemory?
    /// Secures the connection; nil for a plain one.
    var security: (any ClientSecurity)?

    /// The use of the connection's descriptor; clients' connections share memory.
    var use: DescriptorPlan.Use { memory == nil ? .nodes : .clients }
}

extension Reactor {
    typealias MakeHandler = @Sendable (any ConnectionPort) -> any ConnectionHandler

    /// The reactor with the fewest connections.
    ///
    /// Its load is incremented at once, so a burst of connections spreads evenly.
    static func leastBusy(of reactors: [Reactor]) -> Reactor {
        var best = reactors[0]
        var least = Int.max
        for reactor in reactors {
            let load = reactor.load.load(ordering: .relaxed)
            if load < least {
                least = load
                best = reactor
            }
        }
        best.load.add(1, ordering: .relaxed)
        return best
    }

    /// Serves a socket that `leastBusy` assigned to this reactor; called from another thread.
    func postAdoption(_ socket: ConnectedSocket, _ makeHandler: @escaping MakeHandler) {
        let isPosted = postIfRunning { self.adopt(socket, makeHandler) }
        if !isPosted { refuse(socket) }
    }

    /// Serves a socket that `leastBusy` assigned to this reactor; called on its thread.
    func adopt(_ socket: ConnectedSocket, _ makeHandler: MakeHandler) {
        guard !isClosed(listener: socket.listener) else { return refuse(socket) }
        let connection = SocketConnection(socket, loop: self)
        guard let slot = watch(socket.descriptor, events: SocketConnection.events, by: connection)
        else {
            trace.warning(
                "network",
                "closed the connection of \(socket.peer): the kernel has no memory to watch it"
            )
            return refuse(socket)
        }
        connection.start(slot: slot, makeHandler(connection))
    }

    /// Closes the connections of a listener, including those that are not adopted yet.
    func closeConnections(of listener: UInt64) {
        markClosed(listener: listener)
        forEachTarget { target in
            guard let connection = target as? SocketConnection else { return }
            if connection.listener == listener { connection.abandon() }
        }
    }

    private func refuse(_ socket: ConnectedSocket) {
        Glibc.close(socket.descriptor)
        limits.descriptors.closed(socket.use)
        load.subtract(1, ordering: .relaxed)
    }
}
