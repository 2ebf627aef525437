package import Vocabulary

/// What a node does with its copy of a vBucket when the map changes.
///
/// Pure, so that the whole of it is a table in the tests. The map alone never makes another
/// copy writable: a copy that becomes active waits (`hold`) for `activate`, which has the position
/// that is expected of it.
package struct CopyPlan: Hashable, Sendable {
    /// What there is.
    package struct Copy: Hashable, Sendable {
        package var exists: Bool
        package var state: VBucketState
        package var fence: UInt64
        package var stage: UInt64
        package var isSealed: Bool
        /// Activated under this fence.
        package var readyFence: UInt64?
        /// The last fence under which it served in this life.
        package var servedFence: UInt64?
        package var wasCleanStop: Bool
        /// The fence of its history's newest branch.
        package var branchFence: UInt64
        /// It never had a change.
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
        /// The map is older than the one before.
        case ignore
        /// It goes on as what it is, under the map's fence.
        case stay
        /// Makes an empty copy that serves: the bucket is new.
        case create
        case serve
        /// It serves, and continues under the map's fence without activation.
        case goOn
        /// Named as active, but serves no clients until it is activated.
        case hold
        case follow
        /// Serves no clients; its data is kept.
        case keep
        case drop
    }

    /// Whether what the copy has is of a time before the vBucket was emptied, so that it counts as
    /// absent and begins with nothing.
    ///
    /// A node that was away when a bucket was flushed, or heard of it with everything else in a
    /// snapshot, would bring back what it has.
    package static func isOutlived(_ copy: Copy, _ assignment: VBucketAssignment) -> Bool {
        // Without a branch it is of a time before maps, or was never built: then it is not believed
        // anyhow, and built anew.
        copy.exists && !copy.isEmpty && copy.branchFence != 0
            && copy.branchFence < assignment.origin
            && (assignment.fence, assignment.stage) >= (copy.fence, copy.stage)
    }

    /// Whether a copy that is made now has everything that can have been committed: its vBucket was
    /// made with it in the chain, nothing was decided about it since, and no life of this node
    /// before can have acknowledged a write to it.
    ///
    /// Without that, a bucket whose active node dies before its replicas have received the map
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
    ///   - copy: What there is.
    ///   - assignment: What the map says.
    ///   - own: This node.
    ///   - isNew: The bucket was created by this map, so it has no earlier writes.
    /// - Returns: What is to be done.
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
        // It serves when it is activated, once it is empty.
        case .active where isOutlived: return .hold
        case .kept where isOutlived: return .drop
        case .active: return serving(copy, assignment, own, isNew)
        case .pending: return .hold
        case .replica: return .follow
        case .kept: return copy.exists ? .keep : .stay
        case .none: return copy.exists ? .drop : .stay
        }
    }

    private static func serving(
        _ copy: Copy,
        _ assignment: VBucketAssignment,
        _ own: NodeNumber,
        _ isNew: Bool
    ) -> Action {
        if isNew, !copy.exists { return .create }
        // A copy that is sealed under a fence may serve only under a later one.
        if copy.isSealed, copy.fence == assignment.fence { return .hold }
        if copy.readyFence == assignment.fence { return .serve }
        if assignment.isResumed, servesUntilNow(copy, assignment) { return .goOn }
        guard copy.exists, copy.state == .active, copy.wasCleanStop else { return .hold }
        if copy.fence == assignment.fence { return .stay }
        // Of a time before maps: there was no other node that could have had it.
        return copy.fence == 0 && assignment.chain == [own] ? .serve : .hold
    }

    /// Whether it has served, in this life, up to this map: neither sealed nor handed over.
    ///
    /// No other copy can have served meanwhile, even if the map is several steps ahead: a copy that
    /// is resumed without a question about its position has been active all the time.
    private static func servesUntilNow(_ copy: Copy, _ assignment: VBucketAssignment) -> Bool {
        copy.exists && copy.state == .active && !copy.isSealed && copy.servedFence == copy.fence
            && copy.fence != 0 && copy.branchFence >= assignment.origin
    }
}
