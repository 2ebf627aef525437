/// From where a client's connection comes, by the peer address of the connection.
///
/// A header of a request does not count: every client can send any. So the requests that a proxy on the
/// node's machine forwards come from loopback.
package enum ClientOrigin: Hashable, Sendable, CaseIterable {
    /// This machine, or this container.
    case loopback
    /// Any other address, and an unknown one.
    case network

    /// - Parameter peer: The peer's address in digits, as the system writes it: an IPv4 address may have
    ///   the prefix of one that is mapped to IPv6. A host name is of the network.
    package init(peer: String) {
        let prefix = "::ffff:"
        let digits = peer.hasPrefix(prefix) ? peer.dropFirst(prefix.utf8.count) : peer[...]
        self = peer == "::1" || Self.isLoopback(digits) ? .loopback : .network
    }

    /// Whether it is an IPv4 address of 127.0.0.0/8.
    private static func isLoopback(_ digits: Substring) -> Bool {
        let parts = digits.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127"
            && parts.allSatisfy { part in
                (1...3).contains(part.utf8.count)
                    && part.utf8.allSatisfy { (0x30...0x39).contains($0) }
            }
    }
}

/// From where clients may use a bucket without a password.
package enum PasswordlessAccess: UInt8, Hashable, Sendable, CaseIterable {
    case none = 0
    /// From loopback only: they may do all that an application does.
    case loopback = 1
    /// From loopback as above; from other addresses they read and write documents on the data port and
    /// query views.
    case network = 2

    /// Whether a client may use the bucket without a password.
    package func admits(_ origin: ClientOrigin) -> Bool {
        switch (self, origin) {
        case (.none, _), (.loopback, .network): false
        case (.loopback, .loopback), (.network, _): true
        }
    }
}
