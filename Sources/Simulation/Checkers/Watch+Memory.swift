internal import Bytes
internal import DataService
internal import Engine
internal import Server

/// A bucket in one life of a node.
struct MemoryPlace: Hashable {
    let address: String
    let process: Int
    let bucket: String
}

/// How much memory a bucket may have, by what it was told last.
package struct MemoryBound {
    /// Deletions, and what was decided of durable writes, are taken by a full bucket too.
    private static let slack: UInt64 = 32 << 10

    private var quota: UInt64 = 0
    /// The quota, or what was there when it became as small as that.
    private var most: UInt64 = 0

    package init() {}

    /// - Returns: By how many bytes it is beyond what it may have; 0 for not at all.
    package mutating func look(bytes: UInt64, quota now: UInt64) -> UInt64 {
        if now != quota {
            quota = now
            most = bytes
        }
        most = max(quota, min(most, bytes))
        return bytes > most + Self.slack ? bytes - most : 0
    }
}

extension Watch {
    /// Memory: no bucket goes on growing beyond its quota.
    func lookAtMemory() {
        for node in cluster.nodes {
            for bucket in node.node?.data.buckets ?? [] {
                let place = MemoryPlace(
                    address: node.address,
                    process: node.restarts,
                    bucket: bucket.name
                )
                let account = bucket.engine.account
                let beyond = memory[place, default: MemoryBound()]
                    .look(bytes: account.bytes, quota: account.quota)
                guard beyond > 0 else { continue }
                judge.accuse(
                    "Memory: \(bucket.name) at \(node.address) is \(beyond) bytes beyond its quota "
                        + "of \(account.quota)"
                )
            }
        }
    }
}
