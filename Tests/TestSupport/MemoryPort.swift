internal import Bytes
package import Seams

/// The port of a connection without a socket: it records what its handler requests.
package final class MemoryPort: ConnectionPort {
    package let peer: SocketAddress
    package let local = SocketAddress(host: "127.0.0.1", port: 11_210)
    package let reactor: Int
    private let woken = Guarded(false)
    private let ended = Guarded(false)

    package init(reactor: Int = 0, host: String = "127.0.0.1") {
        self.reactor = reactor
        peer = SocketAddress(host: host, port: 40_000)
    }

    package func wake() { woken.withLock { $0 = true } }

    package func close() { ended.withLock { $0 = true } }

    /// Whether the handler has requested the end of the connection.
    package var isEnded: Bool { ended.withLock { $0 } }

    /// Whether a call of `wake` has not been removed.
    package var isWoken: Bool { woken.withLock { $0 } }

    /// Removes the calls of `wake`; returns whether there was one.
    package func removeWake() -> Bool {
        woken.withLock { woken in
            defer { woken = false }
            return woken
        }
    }
}
