/// How far a copy of a vBucket is: two copies of the same vBucket are compared by it.
///
/// - The fence comes first: a longer history on an older branch is the shorter one.
package struct CopyPosition: Hashable, Comparable, Sendable {
    /// The fence of the branch of history that holds `covered`.
    package var branchFence: UInt64
    /// Of every key the copy has the newest version up to here, or a newer one.
    package var covered: Seqno

    package init(branchFence: UInt64, covered: Seqno) {
        self.branchFence = branchFence
        self.covered = covered
    }

    package static func < (one: CopyPosition, other: CopyPosition) -> Bool {
        (one.branchFence, one.covered) < (other.branchFence, other.covered)
    }
}

/// What a node says of its copy of a vBucket.
package struct CopyReport: Hashable, Sendable {
    package var vBucket: VBucketID
    package var state: VBucketState
    /// The fence of the map that the copy follows.
    package var fence: UInt64
    package var position: CopyPosition
    /// The name of its newest history: a copy alone in its chain that crashed begins another one
    /// under the same fence, and others do not have what they had of the one before.
    package var history: VBucketUUID
    /// The largest seqno the copy holds.
    package var high: Seqno
    /// Everything up to here is on disk.
    package var persisted: Seqno
    /// The copy has all that it acknowledged, and all that was committed before it was built: it
    /// reached what its active one had when the stream was opened, and lost nothing since, under
    /// this fence or one before since which nobody has to prove it anew.
    package var isIntact: Bool
    /// The same under this very fence.
    package var hasCaughtUp: Bool
    /// The life before ended as it should: what it knew is on disk.
    package var wasCleanStop: Bool
    /// Another one after each start of the node.
    package var boot: UInt64
    /// It takes nothing more from the active copy of this fence.
    package var isSealed: Bool
    /// Its node tried to read it from disk, and could not: another copy that is as far serves sooner.
    package var isUnreadable: Bool

    package init(
        vBucket: VBucketID,
        state: VBucketState,
        fence: UInt64,
        position: CopyPosition,
        history: VBucketUUID = VBucketUUID(1),
        high: Seqno,
        persisted: Seqno,
        isIntact: Bool,
        hasCaughtUp: Bool? = nil,
        wasCleanStop: Bool,
        boot: UInt64,
        isSealed: Bool = false,
        isUnreadable: Bool = false
    ) {
        self.vBucket = vBucket
        self.state = state
        self.fence = fence
        self.position = position
        self.history = history
        self.high = high
        self.persisted = persisted
        self.isIntact = isIntact
        self.hasCaughtUp = hasCaughtUp ?? isIntact
        self.wasCleanStop = wasCleanStop
        self.boot = boot
        self.isSealed = isSealed
        self.isUnreadable = isUnreadable
    }
}
