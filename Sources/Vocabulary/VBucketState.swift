/// The state of a node's copy of a vBucket.
///
/// The raw values are on disk and on the wire.
package enum VBucketState: UInt8, Sendable {
    /// Serves reads and writes. Can become: dead.
    case active = 1
    /// Follows the active copy. Can become: pending, dead.
    case replica = 2
    /// About to be active; does not serve yet. Can become: active, dead.
    case pending = 3
    /// Serves no requests. Can become: replica, or is deleted.
    case dead = 4

    /// The name of the case, which statistics have on the wire.
    package var name: String { "\(self)" }
}
