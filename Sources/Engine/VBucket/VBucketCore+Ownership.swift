package import Vocabulary

/// A copy's role under the cluster map, and the claims that other nodes may rely on.
///
/// - The fence (~ ballot) only grows; messages with another fence do not apply to the copy.
/// - Only the next fence or stage ends a seal (~ phase-1 promise).
package struct Ownership: Hashable, Sendable {
    /// The fence and stage of the map that the copy follows.
    package var fence: UInt64 = 0
    package var stage: UInt64 = 0
    /// The map's last branch: `intactFence` must be at or above it.
    ///
    /// Never above `fence`.
    package var branch: UInt64 = 0
    /// False if this node has no copy of the vBucket.
    package var exists = true
    /// The copy accepts no more changes from the active copy of this fence.
    package var isSealed = false
    /// The data is being removed, first from disk, then from memory; until that ends, the copy
    /// accepts no changes.
    package var isResetting = false
    /// A hand-over to another node is in progress: writes wait.
    package var isHandingOver = false
    /// The last fence under which the copy had all changes of its active copy.
    ///
    /// Survives a clean stop, not a crash.
    package var intactFence: UInt64?
    /// The copy is activated and serves as soon as a map with this fence confirms it.
    package var readyFence: UInt64?
    /// The last fence under which the copy was a replica.
    package var followedFence: UInt64?
    /// The last fence under which the copy was active since this process started.
    package var servedFence: UInt64?
    /// The previous process stopped cleanly.
    package var wasCleanStop = true

    package init() {}

    /// Whether the copy is intact (in-sync): its `intactFence` is not below `branch`.
    ///
    /// A takeover requires that every counted copy has every change, and a resumption gives no copy
    /// a change that only other copies had, so an intact copy stays intact through both. If fewer
    /// copies are counted than before, after a promotion or the removal of a copy, each copy has to
    /// prove anew that it has the changes that other copies acknowledged.
    package var isIntact: Bool { exists && (intactFence.map { $0 >= branch } ?? false) }

    /// Whether the copy became intact under the present fence.
    package var hasCaughtUp: Bool { exists && intactFence == fence }

    /// Whether the copy was intact under the last fence under which it was a replica.
    ///
    /// The new active node of a takeover checks this. No fence lies between that of the drained
    /// active copy and the takeover's, so `followedFence` is the drained copy's fence.
    package var wasIntact: Bool { exists && intactFence != nil && intactFence == followedFence }
}

extension VBucketCore {
    /// Changes the copy's state and ownership as decided by `CopyPlan` or an activation.
    package mutating func become(_ state: VBucketState, _ ownership: Ownership) {
        precondition(ownership.fence >= self.ownership.fence, "a fence never falls")
        precondition(ownership.branch <= ownership.fence, "history branches with a fence")
        self.ownership = ownership
        self.state = state
        if state == .replica { self.ownership.followedFence = ownership.fence }
        if state == .active {
            self.ownership.servedFence = ownership.fence
            self.ownership.intactFence = ownership.fence
        }
        updateWritability()
    }

    /// Restarts the failover log of a new vBucket with the fence of the map that created it.
    package mutating func beginFirstHistory() {
        precondition(highSeqno == .zero, "a new vBucket has no changes")
        failoverLog = FailoverLog(first: uuid, fence: ownership.fence)
    }

    /// Marks the copy as absent until a stored record or a map creates it.
    package mutating func beAbsent() {
        ownership.exists = false
        state = .dead
    }

    /// Marks the copy as found on disk at a start.
    package mutating func beFound(_ record: VBucketRecord, wasClean: Bool) {
        ownership.exists = true
        ownership.wasCleanStop = wasClean
        ownership.intactFence = wasClean && record.isIntact ? record.fence : nil
        // Other copies may have changes that this copy acknowledged and lost: only activation may let
        // it serve.
        if !wasClean, state == .active { state = .dead }
    }

    /// Accepts no more changes from the active copy of this fence, and serves no clients.
    package mutating func seal() {
        ownership.isSealed = true
        ownership.isHandingOver = false
        ownership.readyFence = nil
        if state == .active { state = .pending }
        updateWritability()
    }

    /// Activates the copy.
    ///
    /// The copy serves at once if `isConfirmed`, otherwise when the map confirms the promotion.
    ///
    /// - Parameters:
    ///   - newUUID: The UUID of a history that begins at the covered seqno; nil to continue the
    ///     present history.
    ///   - fence: The fence of the map.
    ///   - isConfirmed: Whether the map confirms the promotion already.
    package mutating func beginServing(
        _ newUUID: VBucketUUID?,
        fence: UInt64,
        isConfirmed: Bool
    ) {
        if let newUUID {
            failoverLog.begin(newUUID, at: coveredSeqno, fence: fence)
            ownership.intactFence = nil
        } else {
            precondition(openSnapshot == nil, "a copy that takes over has no open snapshot")
        }
        endSnapshotEarly()
        resumeReaders()
        inheritPrepares()
        ownership.readyFence = fence
        if isConfirmed { become(.active, ownership) }
    }

    /// Stops accepting writes, so that the copies of the next chain can receive every change.
    package mutating func beginHandOver() {
        ownership.isHandingOver = true
        updateWritability()
    }

    /// Ends the hand-over: if drained, the other copies have every change and this copy stops
    /// serving; else it continues to serve.
    package mutating func endHandOver(isDrained: Bool) {
        precondition(!isDrained || !hasPrepares, "a drained copy has completed its prepares")
        ownership.isHandingOver = false
        updateWritability()
        guard isDrained else { return }
        state = .pending
        // The copy has declared that it is drained: a map of the same fence must not reactivate it.
        ownership.readyFence = nil
    }

    /// Makes the copy's data count as absent, before the data is removed.
    package mutating func beginReset() {
        ownership.isResetting = true
        ownership.intactFence = nil
    }

    /// Removes the data from memory, after the disk has removed it.
    package mutating func endReset(_ uuid: VBucketUUID) {
        reset(to: state, uuid: uuid)
        ownership.isResetting = false
    }

    /// Changes the state without a map; `active` is not allowed.
    package mutating func become(_ state: VBucketState) {
        precondition(state != .active, "an active copy begins a history or takes one over")
        self.state = state
    }

    /// The state of this copy that other nodes receive.
    ///
    /// A copy that is being reset is reported as absent: no node may rely on it.
    package func report(boot: UInt64) -> CopyReport {
        let isGone = ownership.isResetting
        return CopyReport(
            vBucket: id,
            state: state,
            fence: ownership.fence,
            position: isGone ? CopyPosition(branchFence: 0, covered: .zero) : position,
            history: failoverLog.current.uuid,
            high: isGone ? .zero : highSeqno,
            // Of a snapshot that is only partly on disk, no change counts as persisted.
            persisted: isGone ? .zero : state == .active ? durableSeqno : coveredOnDisk,
            isIntact: ownership.isIntact && !isGone,
            hasCaughtUp: ownership.hasCaughtUp && !isGone,
            wasCleanStop: ownership.wasCleanStop,
            boot: boot,
            isSealed: ownership.isSealed
        )
    }

    package var position: CopyPosition {
        CopyPosition(branchFence: failoverLog.current.fence, covered: coveredSeqno)
    }

    /// Whether the copy is a loaded replica, so that its log and seqnos can be compared with the
    /// active copy's.
    package var isFollowing: Bool {
        state == .replica && ownership.exists && !ownership.isResetting && isLoaded
    }

    /// Whether the copy accepts changes of the active copy of `fence`.
    package func follows(_ fence: UInt64) -> Bool {
        state == .replica && ownership.fence == fence && !ownership.isSealed && isLoaded
            && !ownership.isResetting
    }

    /// Whether the copy may stream its changes to the replicas of `fence`.
    package func feeds(_ fence: UInt64) -> Bool {
        state == .active && ownership.fence == fence && !ownership.isSealed
    }

    /// Records that the copy has every change that the active copy had when the stream was
    /// requested.
    ///
    /// - Returns: Whether the copy had not caught up under this fence before.
    package mutating func noteIntact() -> Bool {
        guard !ownership.hasCaughtUp else { return false }
        ownership.intactFence = ownership.fence
        return true
    }
}
