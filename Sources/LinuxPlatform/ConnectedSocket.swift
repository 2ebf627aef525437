internal import Glibc
internal import Seams
internal import Synchronization

/// A connected socket on its way to its reactor.
struct ConnectedSocket: Sendable {
    let descriptor: Int32
    let peer: SocketAddress
    let local: SocketAddress
    /// The listener it came through; 0 where we opened it.
    let listener: UInt64
    /// What bounds it together with others; nil where it is exempt.
    let memory: ConnectionMemory?
}

extension Reactor {
    typealias MakeHandler = @Sendable (any ConnectionPort) -> any ConnectionHandler

    /// The reactor with the fewest connections; its load counts the coming one at once, so that a
    /// burst spreads as evenly as a trickle.
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

    /// Serves a socket that `leastBusy` placed here; called from another reactor's thread.
    func adoptSoon(_ socket: ConnectedSocket, _ makeHandler: @escaping MakeHandler) {
        let isTaken = postIfRunning { self.adopt(socket, makeHandler) }
        if !isTaken { refuse(socket) }
    }

    /// Serves a socket that `leastBusy` placed here.
    func adopt(_ socket: ConnectedSocket, _ makeHandler: MakeHandler) {
        guard !isClosed(listener: socket.listener) else { return refuse(socket) }
        let connection = SocketConnection(socket, loop: self)
        guard let slot = watch(socket.descriptor, events: SocketConnection.events, by: connection)
        else {
            trace.warning("network", "turned \(socket.peer) away: no memory for another socket")
            return refuse(socket)
        }
        connection.start(slot: slot, makeHandler(connection))
    }

    /// Closes the connections of a listener, and those of it that are still on their way.
    func closeConnections(of listener: UInt64) {
        markClosed(listener: listener)
        forEachTarget { target in
            guard let connection = target as? SocketConnection else { return }
            if connection.listener == listener { connection.abandon() }
        }
    }

    private func refuse(_ socket: ConnectedSocket) {
        Glibc.close(socket.descriptor)
        load.subtract(1, ordering: .relaxed)
    }
}
