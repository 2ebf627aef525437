/// The memory that a node may be asked to give to buckets: one rule for every door to that setting.
///
/// The doors: `--memory-quota`, `/clusterInit`, `/pools/default`, the settings that a node is started
/// with, a node that joins a cluster, and a start on a smaller machine.
package enum MemoryQuota {
    /// Why a machine cannot give a quota.
    package enum Flaw: Hashable, Sendable, CustomStringConvertible {
        /// In MB: what the data service needs.
        case tooSmall(least: UInt64)
        /// In MB: what the machine can give at most, and what it has.
        case tooLarge(most: UInt64, total: UInt64)

        /// For users: cause, then cure.
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

    /// MB that the data service needs at least: what Couchbase's form accepts.
    package static let megabytesMin: UInt64 = 256

    /// MB that a machine can give to buckets; at least `megabytesMin`.
    ///
    /// The machine keeps a GB or a fifth of its memory for itself, whichever is less.
    ///
    /// - Parameter memoryTotal: Bytes that the machine, or the container, gives the node.
    /// - Returns: The most.
    package static func megabytesMax(memoryTotal: UInt64) -> UInt64 {
        let total = memoryTotal >> 20
        return max(total - min(total, 1_024), total / 5 * 4, megabytesMin)
    }

    /// What is wrong with a quota for a machine; nil if nothing is.
    ///
    /// - Parameters:
    ///   - megabytes: The quota.
    ///   - memoryTotal: Bytes that the machine, or the container, gives the node.
    /// - Returns: What is wrong.
    package static func flaw(megabytes: UInt64, memoryTotal: UInt64) -> Flaw? {
        guard megabytes >= megabytesMin else { return .tooSmall(least: megabytesMin) }
        let most = megabytesMax(memoryTotal: memoryTotal)
        guard megabytes <= most else { return .tooLarge(most: most, total: memoryTotal >> 20) }
        return nil
    }

    /// Bytes that a node begins with where no quota was named: half of the memory, but at least 2 GB,
    /// as far as the machine can give that.
    package static func bytesDefault(memoryTotal: UInt64) -> UInt64 {
        min(max(memoryTotal >> 21, 2_048), megabytesMax(memoryTotal: memoryTotal)) << 20
    }
}
