package import Vocabulary

/// What the cluster's map made of a node's copy of a vBucket, and what the copy may count as.
///
/// - The fence only grows; whatever is about another fence does not concern the copy.
/// - A seal ends with the next fence or stage, never by itself.
package struct Ownership: Hashable, Sendable {
    /// Of the map that the copy follows.
    package var fence: UInt64 = 0
    package var stage: UInt64 = 0
    /// Since which fence copies prove anew that they are intact, as that map knows; never above
    /// `fence`.
    package var branch: UInt64 = 0
    /// False where this node has no copy at all.
    package var exists = true
    /// Nothing more is taken from the active copy of this fence.
    package var isSealed = false
    /// What there was is being forgotten, on disk first; until then it is not to be built upon.
    package var isResetting = false
    /// Writes wait: another node takes over.
    package var isHandingOver = false
    /// Under this fence the copy has reached what its active one had, in this life or the one
    /// before if that ended cleanly.
    package var intactFence: UInt64?
    /// Under this fence the copy may serve as soon as the map says it does.
    package var readyFence: UInt64?
    /// The last fence under which the copy followed an active one.
    package var followedFence: UInt64?
    /// The last fence under which the copy served, in this life.
    package var servedFence: UInt64?
    /// The life before ended as it should.
    package var wasCleanStop = true

    package init() {}

    /// It was intact under a fence that is not below `branch`.
    ///
    /// A takeover requires that every counted copy has every change, and a resumption gives no copy
    /// a change that only other copies had, so an intact copy stays intact through both. If fewer
    /// copies are counted than before, after a promotion or the removal of a copy, each copy has to
    /// prove anew that it has the changes that other copies acknowledged.
    package var isIntact: Bool { exists && (intactFence.map { $0 >= branch } ?? false) }

    /// Intact by what the active copy of this very fence had.
    package var hasCaughtUp: Bool { exists && intactFence == fence }

    /// Intact under the fence before the one that now asks it to take over, or under that.
    ///
    /// A takeover is by consent: no fence lies between the active copy that drained and this one, so
    /// the newest fence under which the copy was intact is that one's.
    package var wasIntact: Bool { exists && intactFence != nil && intactFence == followedFence }
}

extension VBucketCore {
    /// Carries out what was decided about this copy.
    ///
    /// - Parameters:
    ///   - state: What it is from here on.
    ///   - ownership: What it counts as.
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
        isWritable = isLoaded && !ownership.isHandingOver
    }

    /// The first history of a new vBucket has the fence of the map that made it.
    package mutating func beginFirstHistory() {
        precondition(highSeqno == .zero, "a new vBucket has no changes")
        failoverLog = FailoverLog(first: uuid, fence: ownership.fence)
    }

    /// Shows that nothing is known of this vBucket here, until a record or a map says otherwise.
    package mutating func beAbsent() {
        ownership.exists = false
        state = .dead
    }

    /// What is left of a copy after a stop.
    package mutating func beFound(_ record: VBucketRecord, wasClean: Bool) {
        ownership.exists = true
        ownership.wasCleanStop = wasClean
        ownership.intactFence = wasClean && record.isIntact ? record.fence : nil
        // Other copies may have changes that it acknowledged and lost: only activation may let it
        // serve.
        if !wasClean, state == .active { state = .dead }
    }

    /// Accepts no more changes from the active copy of this fence, and serves no clients.
    package mutating func seal() {
        ownership.isSealed = true
        ownership.isHandingOver = false
        ownership.readyFence = nil
        if state == .active { state = .pending }
        isWritable = isLoaded
    }

    /// Serves from here on, or as soon as the map confirms it.
    ///
    /// - Parameters:
    ///   - newUUID: Names the branch that begins at what is covered; nil where history goes on.
    ///   - fence: The map's.
    ///   - isConfirmed: The map says so already.
    package mutating func beginServing(
        _ newUUID: VBucketUUID?,
        fence: UInt64,
        isConfirmed: Bool
    ) {
        if let newUUID {
            failoverLog.begin(newUUID, at: coveredSeqno, fence: fence)
            ownership.intactFence = nil
        } else {
            precondition(openSnapshot == nil, "what is taken over is whole")
        }
        endSnapshotEarly()
        resumeReaders()
        inheritPrepares()
        ownership.readyFence = fence
        if isConfirmed { become(.active, ownership) }
    }

    /// Takes no more writes, for another node is to have all there is.
    package mutating func beginHandOver() {
        ownership.isHandingOver = true
        isWritable = false
    }

    /// Ends the hand-over: if drained, the other copies have every change and this copy stops
    /// serving; else it continues to serve.
    package mutating func endHandOver(isDrained: Bool) {
        precondition(!isDrained || !hasPrepares, "a drained copy has completed its prepares")
        ownership.isHandingOver = false
        isWritable = isLoaded
        guard isDrained else { return }
        state = .pending
        // It said that it takes nothing more: the next map of the same fence must not have it serve.
        ownership.readyFence = nil
    }

    /// What there is does not count any more.
    package mutating func beginReset() {
        ownership.isResetting = true
        ownership.intactFence = nil
    }

    /// The disk has forgotten it; so does memory.
    package mutating func endReset(_ uuid: VBucketUUID) {
        reset(to: state, uuid: uuid)
        ownership.isResetting = false
    }

    /// Takes up another role with no map behind it.
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
            // Of a snapshot that the disk has in part nothing survives a power cut.
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

    /// Whether this is a copy that can say what it has of another one's history.
    package var isFollowing: Bool {
        state == .replica && ownership.exists && !ownership.isResetting && isLoaded
    }

    /// Whether changes of the active copy of `fence` may be taken.
    package func follows(_ fence: UInt64) -> Bool {
        state == .replica && ownership.fence == fence && !ownership.isSealed && isLoaded
            && !ownership.isResetting
    }

    /// Whether changes may be streamed to the copies of `fence`.
    package func feeds(_ fence: UInt64) -> Bool {
        state == .active && ownership.fence == fence && !ownership.isSealed
    }

    /// The copy has all that its active one had when it was asked.
    ///
    /// - Returns: Whether that is news.
    package mutating func noteIntact() -> Bool {
        guard !ownership.hasCaughtUp else { return false }
        ownership.intactFence = ownership.fence
        return true
    }
}
