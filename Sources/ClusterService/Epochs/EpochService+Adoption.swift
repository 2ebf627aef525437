internal import Bytes
internal import Orchestration
internal import Persistence
internal import Seams
internal import Vocabulary

/// New epochs: this node's part when another node forms one.
extension EpochService {
    /// How long a surveyed node's log stays unchanged.
    private static let formingNanoseconds: UInt64 = 10_000_000_000
    /// The largest state that fits into one message; a node's state is much smaller.
    private static let stateBytesMax = 15 << 20

    func handleCalls() {
        cluster.calls.handleEpochCalls(PeerKind.epoch) { [weak self] _, bytes, answer in
            guard let self, let call = EpochCall(message: bytes) else {
                return answer(EpochAnswer.refused("The call is malformed.").encoded)
            }
            handle(call) { answer($0.encoded) }
        }
    }

    private func handle(_ call: EpochCall, _ answer: @escaping @Sendable (EpochAnswer) -> Void) {
        guard cluster.state.isProvisioned, !cluster.isStopped,
            !engagement.core.withLock({ $0.isAdopting })
        else {
            return answer(.refused("The node is changing its membership. Retry in a moment."))
        }
        switch call {
        case .position: answer(.position(cluster.member.epochPosition))
        case .survey(let forming):
            guard beginForming(forming) else {
                return answer(.refused("Another node is forming a new epoch. Retry in a moment."))
            }
            answer(.position(cluster.member.epochPosition))
        case .state(let forming):
            guard core.withLock({ $0.forming?.id }) == forming else {
                return answer(.refused("Another node is forming a new epoch. Retry in a moment."))
            }
            do throws(ClusterError) {
                let bytes = try cluster.member.wholeState().encoded()
                guard bytes.count < Self.stateBytesMax else {
                    return answer(.refused("The cluster's state is too large for one message."))
                }
                answer(.state(bytes))
            } catch {
                answer(.refused(error.description))
            }
        case .adopt(let handover):
            cluster.executor.spawn {
                let reason = await self.adopt(handover)
                answer(reason.map { .refused($0) } ?? .done)
            }
        }
    }

    /// Has this node ignore Raft messages until the deadline, so that its log does not change;
    /// false if another epoch is being formed.
    func beginForming(_ id: UInt64) -> Bool {
        let now = cluster.monotonicNanoseconds
        let until = now + Self.formingNanoseconds
        let isFree = core.withLock { core in
            if let other = core.forming, other.id != id, now < other.untilNanoseconds {
                return false
            }
            core.forming = FormingEpoch(id: id, untilNanoseconds: until)
            return true
        }
        if isFree { cluster.member.deafUntil = until }
        return isFree
    }

    /// Changes this node to a new epoch: first on disk, then in memory.
    ///
    /// After a crash the history on disk determines the node's epoch.
    ///
    /// - Returns: Why the node did not change; nil if it did.
    func adopt(_ handover: EpochHandover) async -> String? {
        let old = cluster.member
        let before = cluster.state
        let identity = old.identity
        guard handover.epoch > identity.epoch, handover.past.contains(identity.groupID) else {
            return "The new epoch was not formed from this node's epoch."
        }
        guard case .state(let state) = ClusterState.decode(handover.state),
            state.uuid == before.uuid,
            state.members.contains(where: { own in
                own.number == identity.number && own.uuid == identity.nodeUUID
            })
        else { return "The new epoch is not for this node." }
        guard state.allows(state.epochLogin, .poolsWrite) else {
            let text =
                "A new epoch was refused: \(ChangeTrail.name(state.epochLogin)), which is said to have "
                + "ordered it, lacks the permission \(Permission.poolsWrite.text)."
            cluster.logEvent(.warning, .node, text)
            return text
        }
        guard engagement.beginChanging() else {
            return "The node is changing its membership. Retry in a moment."
        }
        await cluster.onControl { old.stop() }
        // After all writes of the old member.
        let renewed = identity.renewed(by: handover)
        let error: StorageError? = await withUnsafeContinuation { waiter in
            cluster.diskLane.post {
                let error = ClusterMember.keep(handover, as: renewed, in: old.store)
                waiter.resume(returning: error)
            }
        }
        return await cluster.onControl { self.beginAgain(old, before, error) }
    }

    private func beginAgain(
        _ old: ClusterMember,
        _ before: ClusterState,
        _ error: StorageError?
    ) -> String? {
        engagement.core.withLock { $0.isAdopting = false }
        core.withLock { $0.forming = nil }
        guard !cluster.isStopped else { return "The node is stopping." }
        do throws(ClusterError) {
            try engagement.replace(
                by: ClusterMember.reopen(old.store, cluster.dependencies),
                held: before.index
            )
        } catch {
            let text = "The node could not restart from its disk: \(error). Check the disk."
            cluster.logEvent(.fault, .node, text)
            return error.description
        }
        // A lease of the new epoch does not count for the map of the old one.
        if cluster.isFollowing { cluster.member.actsAsOf(nil) }
        applier.stateReplaced(from: before, by: cluster.state)
        if cluster.isFollowing { cluster.member.beginLease() }
        if let error { return "The new epoch could not be stored: \(error)" }
        cluster.logEvent(
            .warning,
            .node,
            "This node is now in epoch \(cluster.state.revEpoch) of its cluster, which "
                + "\(ChangeTrail.name(cluster.state.epochLogin)) ordered."
        )
        return nil
    }
}
