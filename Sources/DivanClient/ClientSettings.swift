internal import Credentials
package import Seams

/// What a client is told when it is made, with defaults.
package struct ClientSettings: Sendable {
    /// Nodes to begin with; one that answers is enough.
    package var bootstrap: [SocketAddress]
    package var bucket: String
    package var user: String
    package var password: String { didSet { keys = SCRAMPassword(password) } }
    /// What is derived of the password: all clients that are made of one value of settings, or of
    /// copies of it, derive once.
    private(set) var keys: SCRAMPassword
    /// Sends the password itself where a server offers nothing better.
    package var allowsPlain = false
    /// Milliseconds that an operation may take with all its attempts, where the call says nothing.
    package var timeoutMilliseconds: UInt64 = 2_500
    /// The same for durable writes, which wait for other nodes.
    package var durableTimeoutMilliseconds: UInt64 = 10_000
    package var openTimeoutMilliseconds: UInt64 = 10_000
    /// Operations under way in all; more are refused at once.
    package var operationsMax = 65_536
    /// Bytes of keys and values under way in all.
    package var bytesMax = 256 << 20
    /// Requests without an answer on one connection; more wait on our side.
    package var pipelineMax = 1_024
    /// Milliseconds between looks for a new map where no node pushes it.
    package var pollMilliseconds: UInt64 = 2_500
    /// A connection on which something is due and nothing comes is asked after so long.
    package var probeMilliseconds: UInt64 = 500
    /// And closed after so long: its node hangs, or the way there is cut.
    package var silenceMilliseconds: UInt64 = 1_500
    /// Milliseconds for a connection to open and log in.
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
