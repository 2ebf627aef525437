internal import Bytes
internal import Orchestration
internal import Persistence
internal import Seams
internal import Vocabulary

/// From what a node knew when it started to what the cluster has agreed on since.
///
/// - Until then it has no lease, and serves nobody.
/// - What was sealed before it stopped is sealed from the first moment on; a node that cannot read
///   that back does not follow, and says so.
extension AdministrationService {
    /// Goes from what the node knew when it started to what is true now, in one step.
    ///
    /// What a node of several knows to be committed when it starts is not all that was: the rest
    /// comes from the leader, and was carried out already in the life before. Carried out once more,
    /// step by step, a bucket would be made, or emptied, that has documents since.
    func followWhenCurrent() async {
        let member = member
        while !core.withLock({ $0.isStopped }), self.member === member {
            do throws(ClusterError) {
                _ = try await readCurrent(timeout: 1_000_000_000)
                guard let failure = await onControl({ self.beginFollowing() }) else { return }
                noteUnfollowed(failure)
                await member.sleep(milliseconds: 1_000)
            } catch {
                await onControl { self.tellPlace() }
                await member.sleep(milliseconds: 50)
            }
        }
    }

    /// - Returns: What keeps it from following; nil where it does, or need not.
    private func beginFollowing() -> StorageError? {
        let now = state
        guard !core.withLock({ $0.isStopped || $0.isFollowing }) else { return nil }
        let isMember = !now.isProvisioned || now.node(number: thisNode) != nil
        let seals: [String: [FencedVBucket]]
        do throws(StorageError) {
            // First of all: a copy that does not know what it promised would break its word.
            seals = try isMember ? keptSeals(now) : [:]
        } catch {
            return error
        }
        let opened: ClusterState? = core.withLock { core in
            core.isFollowing = true
            core.hasHeardOthers = isMember
            core.unfollowed = nil
            core.seals = seals
            defer { core.opened = nil }
            return core.opened
        }
        defer { core.withLock { $0.seals = [:] } }
        guard let opened else { return nil }
        guard isMember else {
            leave()
            return nil
        }
        // Before anybody is told of it: copies follow first thing, in this very turn.
        member.actsAsOf(nil)
        stateReplaced(from: opened, by: now)
        dataPlane.retain(only: now.buckets.map(\.settings))
        member.beginLease()
        return nil
    }

    /// By UUID of the bucket: what was sealed before the node ended, also under fences that its own
    /// copy of the map had not been told to be committed.
    private func keptSeals(
        _ now: ClusterState
    ) throws(StorageError) -> [String: [FencedVBucket]] {
        var found: [String: [FencedVBucket]] = [:]
        for bucket in now.buckets {
            let uuid = bucket.settings.uuid
            let seals = try member.store.seals(ofBucket: uuid)
            found[uuid] = seals.map { FencedVBucket($0.vBucket, fence: $0.fence) }
        }
        return found
    }

    /// It has no lease until it follows, and so serves nobody: whoever looks is to see why.
    private func noteUnfollowed(_ error: StorageError) {
        let reason =
            "This node serves nothing: what it promised before it stopped cannot be read back, and "
            + "is tried again every second: \(error.description)"
        let isNews = core.withLock { core in
            defer { core.unfollowed = reason }
            return core.unfollowed != reason
        }
        if isNews { tell(.error, .node, reason) }
    }

    func follow(_ assignment: BucketAssignment) {
        let seals = core.withLock { $0.seals[assignment.uuid] ?? [] }
        dataPlane.follow(assignment, as: thisNode, seals: seals)
    }
}
