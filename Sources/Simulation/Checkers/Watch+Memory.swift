internal import DataService
internal import Engine
internal import Server

/// A bucket in one process of a node.
struct MemoryPlace: Hashable {
    let address: String
    let process: Int
    let bucket: String
}

/// The memory that a bucket may use after its last change of quota.
package struct MemoryBound {
    /// A full bucket still accepts deletions and outcomes of durable writes.
    private static let slack: UInt64 = 32 << 10

    private var quota: UInt64 = 0
    /// The quota, or the usage at the time when the quota was lowered, if that is higher.
    private var most: UInt64 = 0

    package init() {}

    /// Updates the bound; returns the bytes above it, 0 if there are none.
    package mutating func excess(bytes: UInt64, quota now: UInt64) -> UInt64 {
        if now != quota {
            quota = now
            most = bytes
        }
        most = max(quota, min(most, bytes))
        return bytes > most + Self.slack ? bytes - most : 0
    }
}

extension Watch {
    /// Memory: no bucket above its quota continues to grow.
    func checkMemory() {
        for node in cluster.nodes {
            for bucket in node.node?.data.buckets ?? [] {
                let place = MemoryPlace(
                    address: node.address,
                    process: node.restarts,
                    bucket: bucket.name
                )
                let account = bucket.engine.account
                let excess = memory[place, default: MemoryBound()]
                    .excess(bytes: account.bytes, quota: account.quota)
                guard excess > 0 else { continue }
                verifier.reportFlaw(
                    "Memory: \(bucket.name) at \(node.address) is \(excess) bytes above its quota "
                        + "of \(account.quota)"
                )
            }
        }
    }
}
