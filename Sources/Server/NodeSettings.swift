internal import Orchestration
package import Vocabulary

/// The settings of a node's start, with defaults.
package struct NodeSettings: Sendable {
    /// The data directory.
    package var directory = "data"
    /// The address to listen on; other nodes connect to this node at it.
    package var host = "127.0.0.1"
    /// The port of Couchbase clients; 0 claims any free port and reuses it at the next start.
    package var kvPort: UInt16 = 11_210
    /// The port of the admin interface; 0 as for `kvPort`.
    package var adminPort: UInt16 = 8_091
    /// The port of design documents and view queries, 0 as for `kvPort`; nil for a node without
    /// views.
    package var viewsPort: UInt16? = 8_092
    /// The port of the other nodes' connections; 0 as for `kvPort`.
    package var peerPort: UInt16 = 0
    /// The ports with TLS; nil for none.
    package var tls: TLSPorts? = TLSPorts()
    /// The port of plain memcached clients, without passwords; nil for none.
    package var memcachedPort: UInt16?
    /// The bucket of plain memcached clients; nil for none.
    package var memcachedBucket: String?
    /// The initial memory quota for documents, in bytes; nil for
    /// `MemoryQuota.bytesDefault`.
    package var memoryQuota: UInt64?
    /// Whether functions of views run although the kernel does not filter their system calls.
    package var allowsUnfilteredScripts = false
    /// Names under which clients reach this node, besides those that the cluster knows.
    package var hostNames: [String] = []
    /// Bytes of memory of the machine or the container.
    package var memoryTotal: UInt64

    /// The highest feature level that this node announces; below the release's in tests only.
    package var featureLevel = FeatureLevel.current

    package init(memoryTotal: UInt64) {
        self.memoryTotal = memoryTotal
    }

    /// The ports of clients over TLS.
    ///
    /// Nil stands for the known port if the plain port is the known one, and else for 0, as for `kvPort`.
    package struct TLSPorts: Sendable {
        /// Known: 11207.
        package var kv: UInt16?
        /// Known: 18091.
        package var admin: UInt16?
        /// Known: 18092.
        package var views: UInt16?

        package init() {}
    }

    /// Why a memory quota is invalid on a machine of `memoryTotal` bytes; nil if it is valid.
    ///
    /// The same rule validates the forms of the admin interface.
    package static func flaw(quotaMegabytes: UInt64, of memoryTotal: UInt64) -> String? {
        MemoryQuota.flaw(megabytes: quotaMegabytes, memoryTotal: memoryTotal)?.description
    }
}

/// A node cannot start or serve: a sentence with the cause and a remedy.
package struct NodeError: Error, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}
