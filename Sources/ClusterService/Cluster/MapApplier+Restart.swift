internal import Bytes
internal import Orchestration
internal import Persistence
internal import Seams
internal import Vocabulary

/// How a restarted node of a cluster advances from its stored state to the current agreed state.
///
/// - Until the node follows the current state, it has no lease and serves nothing.
/// - Seals from before the restart are in force before a copy follows. If they cannot be read, the
///   node does not follow and raises an alert.
extension MapApplier {
    /// Whether this node carries out changes of `state`; not yet after the restart of a node of a
    /// cluster, whose state may lack entries that it carried out before.
    ///
    /// The observer of the state is called when this becomes true.
    package var isFollowingState: Bool { cluster.isFollowing }

    /// Follows from the state at the start to the current state, in one step.
    ///
    /// A restarted node may not know all committed entries. The leader sends the missing ones, but
    /// this node may have carried them out before its restart. Repeating them one by one could
    /// create or empty a bucket that has received documents since.
    func followWhenCurrent() async {
        let member = cluster.member
        while !cluster.isStopped, self.cluster.member === member {
            do throws(ClusterError) {
                _ = try await cluster.readCurrent(timeout: 1_000_000_000)
                guard let failure = await cluster.onControl({ self.beginFollowing() }) else {
                    return
                }
                noteUnfollowed(failure)
                await member.sleep(milliseconds: 1_000)
            } catch {
                await cluster.onControl { self.addresses.sendPlace() }
                await member.sleep(milliseconds: 50)
            }
        }
    }

    /// Follows the current state.
    ///
    /// - Returns: The error that prevents it; nil if the node follows, or need not.
    private func beginFollowing() -> StorageError? {
        let now = cluster.state
        guard !cluster.core.withLock({ $0.isStopped || $0.isFollowing }) else { return nil }
        let isMember = !now.isProvisioned || now.node(number: cluster.thisNode) != nil
        let seals: [String: [FencedVBucket]]
        do throws(StorageError) {
            // Read the seals first: without its seal a copy could accept changes of a sealed fence.
            seals = try isMember ? keptSeals(now) : [:]
        } catch {
            return error
        }
        let opened: ClusterState? = core.withLock { core in
            core.hasHeardOthers = isMember
            core.seals = seals
            defer { core.opened = nil }
            return core.opened
        }
        cluster.core.withLock { ($0.isFollowing, $0.unfollowed) = (true, nil) }
        defer { core.withLock { $0.seals = [:] } }
        guard let opened else { return nil }
        guard isMember else {
            core.withLock { $0.leave }()
            return nil
        }
        // The copies follow the new state in this turn, before a beat reports its index.
        cluster.member.actsAsOf(nil)
        stateReplaced(from: opened, by: now)
        cluster.dataPlane.retain(only: now.buckets.map(\.settings))
        cluster.member.beginLease()
        return nil
    }

    /// By bucket UUID: the seals from before the restart, including seals of fences whose entries
    /// this node did not know to be committed.
    private func keptSeals(
        _ now: ClusterState
    ) throws(StorageError) -> [String: [FencedVBucket]] {
        var found: [String: [FencedVBucket]] = [:]
        for bucket in now.buckets {
            let uuid = bucket.settings.uuid
            let seals = try cluster.member.store.seals(ofBucket: uuid)
            found[uuid] = seals.map { FencedVBucket($0.vBucket, fence: $0.fence) }
        }
        return found
    }

    /// Logs, and keeps for an alert, why the node does not follow: it has no lease and serves
    /// nothing.
    private func noteUnfollowed(_ error: StorageError) {
        let reason =
            "This node serves nothing, because its seals from before its restart cannot be read: "
            + "\(error.description). Check the disk. The node retries every second."
        let isNews = cluster.core.withLock { core in
            defer { core.unfollowed = reason }
            return core.unfollowed != reason
        }
        if isNews { cluster.logEvent(.error, .node, reason) }
    }

    func follow(_ assignment: BucketAssignment) {
        let seals = core.withLock { $0.seals[assignment.uuid] ?? [] }
        cluster.dataPlane.follow(assignment, as: cluster.thisNode, seals: seals)
    }
}
