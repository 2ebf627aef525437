internal import Orchestration

/// Everything that an operator may set when a node starts, with defaults.
package struct NodeSettings: Sendable {
    /// Where everything is kept.
    package var directory = "data"
    /// The address to listen on; others reach this node by it.
    package var host = "127.0.0.1"
    /// 0: any free port, the same again at the next start.
    package var kvPort: UInt16 = 11_210
    package var adminPort: UInt16 = 8_091
    /// For the other nodes.
    package var peerPort: UInt16 = 0
    /// Plain memcached without passwords; nil for none.
    package var memcachedPort: UInt16?
    package var memcachedBucket: String?
    /// Bytes for documents where nobody has set it over the admin interface; nil: half of what the
    /// machine has.
    package var memoryQuota: UInt64?
    /// Bytes that the machine, or the container, gives us.
    package var memoryTotal: UInt64

    package init(memoryTotal: UInt64) {
        self.memoryTotal = memoryTotal
    }

    /// Why a machine with so many bytes of memory cannot give a quota, as the forms judge it too; nil
    /// if it can.
    package static func flaw(quotaMegabytes: UInt64, of memoryTotal: UInt64) -> String? {
        MemoryQuota.flaw(megabytes: quotaMegabytes, memoryTotal: memoryTotal)?.description
    }
}

/// Why a node cannot start: one sentence with cause and cure.
package struct NodeError: Error, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}
