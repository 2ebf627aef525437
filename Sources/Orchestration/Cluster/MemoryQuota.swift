/// The memory that a node can provide to buckets: one rule for every way to change that setting.
///
/// The ways: `--memory-quota`, `/clusterInit`, `/pools/default`, the settings that a node starts
/// with, a node that joins a cluster, and a start on a smaller machine.
package enum MemoryQuota {
    /// Why a machine cannot provide a quota.
    package enum Flaw: Hashable, Sendable, CustomStringConvertible {
        /// `least`: the minimum of the data service, in MB.
        case tooSmall(least: UInt64)
        /// `most`: the most that the machine can provide; `total`: its memory; both in MB.
        case tooLarge(most: UInt64, total: UInt64)

        /// A text for users: the cause, then what to do.
        package var description: String {
            switch self {
            case .tooSmall(let least):
                "the data service needs at least \(least) MB. Name \(least) MB or more."
            case .tooLarge(let most, let total):
                "this machine can give buckets at most \(most) MB of its \(total) MB. Name "
                    + "\(MemoryQuota.megabytesMin) to \(most) MB."
            }
        }
    }

    /// The minimum of the data service in MB, as in Couchbase.
    package static let megabytesMin: UInt64 = 256

    /// The most memory that a machine can provide to buckets.
    ///
    /// A GB or a fifth of the memory, whichever is less, is reserved for everything else.
    ///
    /// - Parameter memoryTotal: Bytes of memory that the machine or container provides.
    /// - Returns: MB; at least `megabytesMin`.
    package static func megabytesMax(memoryTotal: UInt64) -> UInt64 {
        let total = memoryTotal >> 20
        return max(total - min(total, 1_024), total / 5 * 4, megabytesMin)
    }

    /// Checks a quota against a machine's memory.
    ///
    /// - Parameters:
    ///   - megabytes: The quota.
    ///   - memoryTotal: Bytes of memory that the machine or container provides.
    /// - Returns: Why the machine cannot provide the quota; nil if it can.
    package static func flaw(megabytes: UInt64, memoryTotal: UInt64) -> Flaw? {
        guard megabytes >= megabytesMin else { return .tooSmall(least: megabytesMin) }
        let most = megabytesMax(memoryTotal: memoryTotal)
        guard megabytes <= most else { return .tooLarge(most: most, total: memoryTotal >> 20) }
        return nil
    }

    /// The default quota in bytes: half of the memory, but at least 2 GB, limited to what the
    /// machine can provide.
    package static func bytesDefault(memoryTotal: UInt64) -> UInt64 {
        min(max(memoryTotal >> 21, 2_048), megabytesMax(memoryTotal: memoryTotal)) << 20
    }
}
