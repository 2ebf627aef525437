package import Bytes

/// The progress of a copy of a vBucket ~ (ballot, log position); orders copies of one vBucket.
///
/// - The fence is compared first: any position on a newer branch is ahead of all on older branches.
package struct CopyPosition: Hashable, Comparable, Sendable {
    /// The fence of the branch of history that holds `covered`.
    package var branchFence: UInt64
    /// Of every key, the copy has the newest version up to this seqno, or a newer version.
    package var covered: Seqno

    package init(branchFence: UInt64, covered: Seqno) {
        self.branchFence = branchFence
        self.covered = covered
    }

    package static func < (one: CopyPosition, other: CopyPosition) -> Bool {
        (one.branchFence, one.covered) < (other.branchFence, other.covered)
    }
}

/// A node's report on its copy of a vBucket.
package struct CopyReport: Hashable, Sendable {
    package var vBucket = VBucketID(0)
    package var state = VBucketState.dead
    /// The fence of the map that the copy follows.
    package var fence: UInt64 = 0
    package var position = CopyPosition()
    /// The UUID of the copy's newest history.
    ///
    /// If the only copy of a chain crashes, it begins a new history under the same fence; progress
    /// that other copies reported for the previous history does not count for the new one.
    package var history = VBucketUUID(1)
    /// The largest seqno the copy holds.
    package var high = Seqno.zero
    /// Every change up to this seqno is on disk.
    package var persisted = Seqno.zero
    /// The copy has every change that it acknowledged and every change that was committed before it
    /// was built ~ in-sync replica.
    ///
    /// True once the copy reached the seqno that its active copy had when the stream was opened,
    /// under `fence` or under an earlier fence of the same branch, and lost nothing since.
    package var isIntact = false
    /// The same as `isIntact`, but reached under `fence` itself.
    package var hasCaughtUp = false
    /// The node's previous process stopped cleanly: every change it acknowledged is on disk.
    package var wasCleanStop = false
    /// Changes with each start of the node.
    package var boot: UInt64 = 0
    /// The copy accepts no more changes from the active copy of `fence` ~ phase-1 promise.
    package var isSealed = false
    /// The node failed to read the copy from disk: prefer a readable copy at the same position.
    package var isUnreadable = false

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

    package init() {}
}

extension CopyReport: ExtensibleFields {
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&vBucket, "vBucket")
        try coder.choice(&state, "state")
        try coder.field(&fence, "fence")
        try coder.field(&position, "position")
        try coder.field(&history, "history")
        try coder.field(&high, "high seqno")
        try coder.field(&persisted, "persisted seqno")
        try coder.field(&isIntact, "intact")
        try coder.field(&wasCleanStop, "clean stop")
        try coder.fixed(&boot, "boot")
        try coder.field(&isSealed, "sealed")
        try coder.field(&hasCaughtUp, "caught up")
        try coder.field(&isUnreadable, "unreadable")
    }
}
