/// What a node's copy of a vBucket may do.
///
/// The numbers are on disk and on the wire.
package enum VBucketState: UInt8, Sendable {
    /// Reads and writes. Can become: dead.
    case active = 1
    /// Follows the active one. Can become: pending, dead.
    case replica = 2
    /// About to be active, serves nobody yet. Can become: active, dead.
    case pending = 3
    /// Serves nothing. Can become: replica, or nothing at all.
    case dead = 4

    package var name: String {
        switch self {
        case .active: "active"
        case .replica: "replica"
        case .pending: "pending"
        case .dead: "dead"
        }
    }
}
