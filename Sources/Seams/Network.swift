package import Bytes

/// Sockets that carry the data port: bytes in, bytes out, run to completion.
///
/// A reactor calls a connection's handler with all bytes it received and sends whatever the handler
/// appended, in one go. The handler is pure but for what it shares: no sockets, no waiting. That
/// same call is what the simulator and the fuzzer make.
package protocol Network: Sendable {
    /// When memory that connection handlers may be looking at can be freed.
    var quiescence: Quiescence { get }
    /// What the connections of client listeners may hold together.
    var memory: ConnectionMemory { get }
    /// The lane on which a reactor runs other people's work between its connections: for timers and
    /// for state that belongs to one reactor. Only the platform stops it.
    func lane(ofReactor index: Int) -> any Lane
    /// Claims `address` and spreads its connections evenly over all reactors.
    ///
    /// The port is ours alone, so that a second server is told that it is taken.
    ///
    /// - Parameters:
    ///   - address: Where to listen; port 0 takes any free one.
    ///   - callers: Who connects: decides whether `memory` bounds the connections.
    ///   - accept: Called on the reactor that owns the new connection.
    /// - Throws: `NetworkError` that names the address and what to do.
    /// - Returns: The listener, with the port that was really claimed.
    func listen(
        on address: SocketAddress,
        for callers: Callers,
        accept: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler
    ) throws(NetworkError) -> any Listener

    /// Opens a connection, served by one of the reactors; `connected` is called there.
    ///
    /// `memory` does not bound it: this node chose to open it.
    func connect(
        to address: SocketAddress,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable (NetworkError) -> Void
    )

    /// Finds the addresses of a host by its name, best first; digits are their own answer.
    ///
    /// `done` is called once, on any thread, perhaps before this returns.
    func resolve(
        _ host: String,
        _ done: @escaping @Sendable (Result<[String], NetworkError>) -> Void
    )
}

/// Who connects to a listener.
package enum Callers: Sendable {
    /// Any number of connections: `Network.memory` bounds what they hold together.
    case clients
    /// Nodes of the cluster, whose number and protocols bound what they send. Exempt from
    /// `Network.memory`, so that clients cannot keep nodes from hearing each other.
    case nodes
}

extension Network {
    /// Claims `address` for clients.
    ///
    /// - Throws: As `listen(on:for:accept:)`.
    package func listen(
        on address: SocketAddress,
        accept: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler
    ) throws(NetworkError) -> any Listener {
        try listen(on: address, for: .clients, accept: accept)
    }

    /// A network whose hosts are called by their names has nothing to look up.
    package func resolve(
        _ host: String,
        _ done: @escaping @Sendable (Result<[String], NetworkError>) -> Void
    ) { done(.success([host])) }
}

/// A host (an IP address in digits) and a port.
package struct SocketAddress: Hashable, Sendable, CustomStringConvertible {
    package var host: String
    package var port: UInt16

    package init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// Reachable from this machine only.
    package var isLoopback: Bool { host == "::1" || host.hasPrefix("127.") }
}

/// A claimed port.
package protocol Listener: Sendable {
    var address: SocketAddress { get }
    /// Accepts no more connections and closes the open ones.
    func close()
}

/// What a handler may ask of its connection.
///
/// All calls may come from any thread.
package protocol ConnectionPort: AnyObject, Sendable {
    var peer: SocketAddress { get }
    var local: SocketAddress { get }
    /// The number of the reactor that serves this connection, from 0.
    var reactor: Int { get }
    /// Has the reactor call the handler's `wake` soon; harmless when the connection is gone.
    func wake()
    /// Has the reactor close the connection soon, without sending what is left.
    func close()
}

/// What the reactor does after a handler looked at the received bytes.
package struct ReceiveProgress: Sendable {
    package enum Next: Sendable {
        /// Give me more bytes when they come; those left over stay first.
        case receive
        /// I stopped early because the reply buffer is full: call again once it went out.
        case drain
        /// I wait for something else and will say `wake`: hold further bytes back.
        case pause
        /// Send what I appended, then close.
        case close
    }

    package var consumed: Int
    package var next: Next
    /// Bytes that the rest of an incomplete frame needs in all, if known: spares growing twice.
    package var needed: Int

    package init(consumed: Int, next: Next, needed: Int = 0) {
        self.consumed = consumed
        self.next = next
        self.needed = needed
    }
}

/// One connection's protocol.
///
/// Called by one reactor only, never twice at a time.
package protocol ConnectionHandler: AnyObject {
    /// Handles `input` (all bytes not consumed yet), appending replies to `output`.
    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress
    /// Handles what another lane finished, after `ConnectionPort.wake`; `input` as in `receive`.
    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress
    /// The connection is gone; nothing is called any more.
    func closed()
}

/// Why a socket could not be had.
package struct NetworkError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        case addressInUse
        case addressNotAvailable
        case permissionDenied
        case refused
        /// No such host, or nobody who knows it.
        case unknownHost
        case other
    }

    package let code: Code
    /// A sentence for an operator: what was tried, what went wrong, what to do.
    package let description: String

    package init(code: Code, description: String) {
        self.code = code
        self.description = description
    }
}
