internal import Credentials
package import Seams

/// The settings of a client, with defaults.
package struct ClientSettings: Sendable {
    /// The nodes to connect to first; one that answers is enough.
    package var bootstrap: [SocketAddress]
    package var bucket: String
    package var user: String
    package var password: String { didSet { keys = SCRAMPassword(password) } }
    /// The keys derived from the password.
    ///
    /// All clients made from one settings value or its copies share them, and derive them once.
    private(set) var keys: SCRAMPassword
    /// Connects with TLS to the servers that this believes; nil for plain ports.
    package var trust: (any ServerTrust)?
    /// Allows sending the password itself to a server that offers no SCRAM mechanism.
    package var allowsPlain = false
    /// Timeout of an operation with all its attempts, unless the call sets one.
    package var timeoutMilliseconds: UInt64 = 2_500
    /// As `timeoutMilliseconds`, for durable writes, which wait for other nodes.
    package var durableTimeoutMilliseconds: UInt64 = 10_000
    package var openTimeoutMilliseconds: UInt64 = 10_000
    /// Pending operations of the client; further ones are refused at once.
    package var operationsMax = 65_536
    /// Bytes of keys and values of all pending operations; beyond it, operations are refused.
    package var bytesMax = 256 << 20
    /// Unanswered requests on one connection; further ones wait in the client.
    package var pipelineMax = 1_024
    /// Interval between requests for a newer map, if the nodes do not push maps.
    package var pollMilliseconds: UInt64 = 2_500
    /// Silence on a connection with unanswered requests after which the client sends a probe.
    package var probeMilliseconds: UInt64 = 500
    /// Silence on such a connection after which the client closes it: the node hangs or is cut off.
    package var silenceMilliseconds: UInt64 = 1_500
    /// Timeout for a connection to open and log in.
    package var connectMilliseconds: UInt64 = 2_000

    package init(
        bootstrap: [SocketAddress],
        bucket: String,
        user: String,
        password: String
    ) {
        self.bootstrap = bootstrap
        self.bucket = bucket
        self.user = user
        self.password = password
        keys = SCRAMPassword(password)
    }
}
