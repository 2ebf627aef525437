package import Bytes
package import Vocabulary

/// Sockets, served by reactors that run handlers to completion.
///
/// A reactor calls a connection's handler with all bytes it has received, then sends all bytes that
/// the handler appended. The handler uses no sockets and never waits. The simulator and the fuzzer
/// call it in the same way.
package protocol Network: Sendable {
    /// Decides when memory that connection handlers may still access can be freed.
    var quiescence: Quiescence { get }
    /// The memory that all connections of client listeners may hold together.
    var memory: ConnectionMemory { get }
    /// The clients that have not logged in, on all ports of this node.
    var strangers: LoginWatch { get }
    /// The lane of a reactor, which runs work between its connections: timers, and work on state
    /// that belongs to one reactor. Only the platform stops it.
    func lane(ofReactor index: Int) -> any Lane
    /// Listens on `address` and distributes its connections evenly over all reactors.
    ///
    /// The port is exclusive: a second server on it gets an error.
    ///
    /// - Parameters:
    ///   - address: Where to listen; port 0 for any free port.
    ///   - callers: The kind of clients: decides whether `memory` bounds the connections.
    ///   - accept: Called on the reactor of each new connection.
    /// - Throws: `NetworkError` that names the address and what to do.
    /// - Returns: The listener, with the actual port.
    func listen(
        on address: SocketAddress,
        for callers: Callers,
        accept: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler
    ) throws(NetworkError) -> any Listener

    /// Opens a connection that one of the reactors serves.
    ///
    /// `connected` is called on that reactor, or else `failed`. `memory` does not
    /// bound the connection: this node chose to open it.
    func connect(
        to address: SocketAddress,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable (NetworkError) -> Void
    )

    /// Resolves a host name to addresses, best first; an IP address resolves to itself.
    ///
    /// `done` is called once, on any thread, possibly before this returns.
    func resolve(
        _ host: String,
        _ done: @escaping @Sendable (Result<[String], NetworkError>) -> Void
    )
}

/// The kind of clients that connect to a listener.
package enum Callers: Sendable {
    /// Any number of connections: `Network.memory` bounds what they hold together.
    case clients
    /// As `clients`, over secured connections.
    case securedClients(any ClientSecurity)
    /// Nodes of the cluster, whose number and protocols bound what they send. Exempt from
    /// `Network.memory`, so that clients cannot block the messages between nodes.
    case nodes

    /// Secures the connections; nil for plain ones.
    package var security: (any ClientSecurity)? {
        if case .securedClients(let security) = self { security } else { nil }
    }

    /// Whether `Network.memory` bounds the connections.
    package var areBounded: Bool { if case .nodes = self { false } else { true } }
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

    /// Returns the name itself, for networks that address hosts by name.
    package func resolve(
        _ host: String,
        _ done: @escaping @Sendable (Result<[String], NetworkError>) -> Void
    ) { done(.success([host])) }
}

/// An IP address and a port.
package struct SocketAddress: Hashable, Sendable, CustomStringConvertible {
    package var host: String
    package var port: UInt16

    package init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// Whether the address is reachable only from this machine.
    package var isLoopback: Bool { host == "::1" || host.hasPrefix("127.") }
}

/// A port that accepts connections.
package protocol Listener: Sendable {
    var address: SocketAddress { get }
    /// Accepts no more connections and closes the open ones.
    func close()
}

/// A handler's connection.
///
/// All calls may come from any thread.
package protocol ConnectionPort: AnyObject, Sendable {
    var peer: SocketAddress { get }
    var local: SocketAddress { get }
    /// The number of the reactor that serves this connection, from 0.
    var reactor: Int { get }
    /// Whether the client's connection is secured, so that others cannot read it.
    var isSecured: Bool { get }
    /// Makes the reactor call the handler's `wake`; no effect if the connection is closed.
    func wake()
    /// Makes the reactor close the connection, without sending unsent bytes.
    func close()
}

extension ConnectionPort {
    package var isSecured: Bool { false }
}

/// The consumed bytes, and the reactor's next action after a handler has handled the received bytes.
package struct ReceiveProgress: Sendable {
    package enum Next: Sendable {
        /// Call again when more bytes have arrived; unconsumed bytes come first.
        case receive
        /// The reply buffer is full: call again once it is sent.
        case drain
        /// The handler waits for another lane: call it only after `ConnectionPort.wake`.
        case pause
        /// Send the appended bytes, then close.
        case close
    }

    package var consumed: Int
    package var next: Next
    /// The total size in bytes of the incomplete frame at the front; 0 if unknown.
    ///
    /// The reactor makes room for it once, and may wait for all of it before it calls the handler
    /// again.
    package var needed: Int
    /// Whether the client has not logged in: the reactor then holds at most
    /// `LoginWatch.inputBytesMax` of its input.
    package var isStranger = false

    package init(consumed: Int, next: Next, needed: Int = 0) {
        self.consumed = consumed
        self.next = next
        self.needed = needed
    }
}

/// The protocol of one connection.
///
/// Only its reactor calls it, one call at a time.
package protocol ConnectionHandler: AnyObject {
    /// Handles `input` (all bytes not consumed yet), appending replies to `output`.
    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress
    /// Handles the results of another lane, after `ConnectionPort.wake`; `input` as in `receive`.
    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress
    /// The client has proved a certificate; called at most once, before any input.
    func authenticated(by certificate: ClientCertificate)
    /// The connection ends because the other side broke the protocol below the handler's; `closed` follows.
    func broken(_ reason: String)
    /// The connection is closed. This is the last call.
    func closed()
}

extension ConnectionHandler {
    /// Ignores the certificate: for protocols without users.
    package func authenticated(by certificate: ClientCertificate) {}
    /// Ignores the reason: for handlers that report no loss.
    package func broken(_ reason: String) {}
}

/// A handler of a connection on which both sides send much.
///
/// If each side waited until its own output is sent before it reads, both could wait for ever.
package protocol DuplexHandler: ConnectionHandler {
    /// Whether `receiveWhileSending` may be called.
    var isDuplex: Bool { get }
    /// Handles input while earlier output waits to be sent, and appends nothing of its own.
    ///
    /// - Returns: `drain` if the handler has something to send after the earlier output, else `receive` or
    ///   `close`.
    func receiveWhileSending(_ input: ByteView, output: ByteWriter) -> ReceiveProgress
}

/// Why listening, connecting or resolving failed.
package struct NetworkError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        case addressInUse
        case addressNotAvailable
        case permissionDenied
        case refused
        /// There is no such host, or no name server knows it.
        case unknownHost
        case other
    }

    package let code: Code
    /// A sentence for an operator: what failed, why, and what to do.
    package let description: String

    package init(code: Code, description: String) {
        self.code = code
        self.description = description
    }
}
