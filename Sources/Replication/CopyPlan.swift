package import Vocabulary

/// The action of a node on its copy of a vBucket when the map changes.
///
/// Pure, so that tests cover it as a table. A map alone never makes a replica writable: a copy that
/// the map names as active waits (`hold`) for `activate`, which has the position that is expected
/// of the copy.
package struct CopyPlan: Hashable, Sendable {
    /// This node's copy before the map.
    package struct Copy: Hashable, Sendable {
        package var exists: Bool
        package var state: VBucketState
        package var fence: UInt64
        package var stage: UInt64
        package var isSealed: Bool
        /// Activated under this fence.
        package var readyFence: UInt64?
        /// The last fence under which it served since this process started.
        package var servedFence: UInt64?
        package var wasCleanStop: Bool
        /// The fence of its history's newest branch.
        package var branchFence: UInt64
        /// Whether the copy has never had a change.
        package var isEmpty: Bool

        package init(
            exists: Bool = true,
            state: VBucketState,
            fence: UInt64,
            stage: UInt64 = 0,
            isSealed: Bool = false,
            readyFence: UInt64? = nil,
            servedFence: UInt64? = nil,
            wasCleanStop: Bool = true,
            branchFence: UInt64 = 0,
            isEmpty: Bool = true
        ) {
            self.exists = exists
            self.state = state
            self.fence = fence
            self.stage = stage
            self.isSealed = isSealed
            self.readyFence = readyFence
            self.servedFence = servedFence
            self.wasCleanStop = wasCleanStop
            self.branchFence = branchFence
            self.isEmpty = isEmpty
        }
    }

    package enum Action: Hashable, Sendable {
        /// The map is older than the one that the copy follows.
        case ignore
        /// The copy keeps its state, under the map's fence.
        case stay
        /// Create an empty copy that serves: the bucket is new.
        case create
        case serve
        /// The copy serves, and continues under the map's fence without activation.
        case goOn
        /// The map names the copy as active, but it serves no clients until it is activated.
        case hold
        case follow
        /// Serves no clients; its data is kept.
        case keep
        case drop
    }

    /// Whether the copy's data is older than the vBucket's creation or flush (`origin`): then the
    /// copy counts as absent and is rebuilt from nothing.
    ///
    /// Without this, a node that was down during a flush, or learned of it from a Raft snapshot,
    /// would bring back deleted documents.
    package static func isOutlived(_ copy: Copy, _ assignment: VBucketAssignment) -> Bool {
        // Without a branch fence the copy is from before maps or was never built: its position
        // never counts, and it is rebuilt anyway.
        copy.exists && !copy.isEmpty && copy.branchFence != 0
            && copy.branchFence < assignment.origin
            && (assignment.fence, assignment.stage) >= (copy.fence, copy.stage)
    }

    /// Whether a copy that is created now is intact at once: its vBucket was created with this node
    /// in the chain, its chain has not changed since, and no earlier process of this node can have
    /// acknowledged a write to it.
    ///
    /// Without this, a bucket whose active node fails before its replicas have received the map
    /// could not be failed over: no copy would be known to be complete, although the bucket is
    /// empty.
    package static func isBornWhole(
        _ copy: Copy,
        _ assignment: VBucketAssignment,
        own: NodeNumber,
        isNew: Bool
    ) -> Bool {
        isNew && !copy.exists && assignment.chain.contains(own) && assignment.origin != 0
            && assignment.fence == assignment.origin && assignment.stage == assignment.origin
    }

    /// - Parameters:
    ///   - copy: This node's copy before the map.
    ///   - assignment: The vBucket's assignment in the map.
    ///   - own: This node.
    ///   - isNew: The bucket was created by this map, so it has no earlier writes.
    /// - Returns: What to do with the copy.
    package static func action(
        for copy: Copy,
        _ assignment: VBucketAssignment,
        own: NodeNumber,
        isNew: Bool
    ) -> Action {
        guard (assignment.fence, assignment.stage) >= (copy.fence, copy.stage) else {
            return .ignore
        }
        let isOutlived = isOutlived(copy, assignment)
        switch assignment.role(of: own) {
        // The copy is emptied first and serves after its activation.
        case .active where isOutlived: return .hold
        case .kept where isOutlived: return .drop
        case .active: return serving(copy, assignment, on: own, isNew: isNew)
        case .pending: return .hold
        case .replica: return .follow
        case .kept: return copy.exists ? .keep : .stay
        case .none: return copy.exists ? .drop : .stay
        }
    }

    private static func serving(
        _ copy: Copy,
        _ assignment: VBucketAssignment,
        on own: NodeNumber,
        isNew: Bool
    ) -> Action {
        if isNew, !copy.exists { return .create }
        // A copy that is sealed under a fence may serve only under a later one.
        if copy.isSealed, copy.fence == assignment.fence { return .hold }
        if copy.readyFence == assignment.fence { return .serve }
        if assignment.isResumed, servesUntilNow(copy, assignment) { return .goOn }
        guard copy.exists, copy.state == .active, copy.wasCleanStop else { return .hold }
        if copy.fence == assignment.fence { return .stay }
        // A copy from before maps: no other node can have had one.
        return copy.fence == 0 && assignment.chain == [own] ? .serve : .hold
    }

    /// Whether the copy has served in this process up to this map, neither sealed nor handed over.
    ///
    /// No other copy can have served meanwhile, even if the map is several steps ahead: the map
    /// resumes a copy without an expected position only if it was active all the time.
    private static func servesUntilNow(_ copy: Copy, _ assignment: VBucketAssignment) -> Bool {
        copy.exists && copy.state == .active && !copy.isSealed && copy.servedFence == copy.fence
            && copy.fence != 0 && copy.branchFence >= assignment.origin
    }
}
