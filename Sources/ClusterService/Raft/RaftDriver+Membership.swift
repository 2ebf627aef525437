package import Consensus
internal import Seams
package import Vocabulary

/// A change of who votes, until it is through.
struct PendingChange {
    var change: ConfigurationChange
    var deadline: UInt64
    /// Where it stands in the log; nil until it was taken.
    var place: LogPosition?
    var isAsked = false
    var done: (Result<VoterConfiguration, ClusterError>) -> Void
}

/// Who votes and who leads; only the leader can change either.
extension RaftDriver {
    /// Changes the members; `done` comes once the change is committed and, where the joint
    /// configuration leaves by itself, left.
    ///
    /// While another change is under way it waits its turn.
    package func change(
        _ change: ConfigurationChange,
        timeout: UInt64 = 5_000_000_000,
        done: @escaping (Result<VoterConfiguration, ClusterError>) -> Void
    ) {
        guard case .running = life, raft.isLeader else { return done(.failure(notLeader)) }
        changes.append(PendingChange(change: change, deadline: now + timeout, done: done))
        run()
    }

    package func change(
        _ change: ConfigurationChange,
        timeout: UInt64 = 5_000_000_000
    ) async throws(ClusterError) -> VoterConfiguration {
        let result: Result<VoterConfiguration, ClusterError> = await withUnsafeContinuation {
            waiter in
            lane.post {
                self.change(change, timeout: timeout) { waiter.resume(returning: $0) }
            }
        }
        return try result.get()
    }

    /// Hands the lead to another voter; `onChange` tells when it took it.
    ///
    /// - Returns: Whether it was asked to.
    @discardableResult
    package func transfer(to node: NodeNumber) -> Bool {
        guard case .running = life, raft.isLeader, node != settings.node,
            raft.configuration.voters.contains(node)
        else { return false }
        enqueue(.transfer(to: node))
        run()
        return true
    }

    func finishChanges() {
        guard let first = changes.first else { return }
        guard raft.isLeader else { return failChanges(notLeader) }
        if let place = first.place {
            let leaves = raft.configuration.isJoint && raft.configuration.leavesByItself
            guard raft.commit >= place.index, raft.log.configurationIndex <= raft.commit, !leaves
            else { return }
            let configuration = raft.configuration
            changes.removeFirst()
            callbacks.append { first.done(.success(configuration)) }
            return finishChanges()
        }
        guard !first.isAsked else { return }
        changes[0].isAsked = true
        enqueue(.change(throughBothHalves(first.change))) { answer in
            self.changeAnswered(answer)
        }
    }

    /// Voters are never changed at once, though consensus would allow it for one of them.
    ///
    /// Leases are promised by voters that block every quorum of a configuration, and need not block
    /// those of the next: without one of four, two of the three that are left could decide what those
    /// who promised, and whoever was promised, have not heard of (`LeaseMistake.changesAtOnce`).
    private func throughBothHalves(_ change: ConfigurationChange) -> ConfigurationChange {
        let now = raft.configuration
        // What cannot be is refused by consensus.
        guard change.transition == .automatic, !now.isJoint,
            let next = try? now.applying(change), next.voters != now.voters
        else { return change }
        return ConfigurationChange(change.steps, transition: .jointLeftByItself)
    }

    private func changeAnswered(_ answer: ProposalAnswer) {
        guard let first = changes.first else { return }
        switch answer {
        case .accepted(let place, _): changes[0].place = place
        case .refused(.configuration(let refusal)):
            changes.removeFirst()
            let error = ClusterError(
                code: .refused,
                description: "the voters cannot be changed like that: \(Self.sentence(refusal))"
            )
            callbacks.append { first.done(.failure(error)) }
        case .refused: break  // Again at the next tick.
        }
    }

    private static func sentence(_ refusal: ConfigurationRefusal) -> String {
        switch refusal {
        case .noVoterLeft: "nobody would be left to vote"
        case .alreadyJoint: "the change before is not over"
        case .notJoint: "there is no change under way that could end"
        }
    }

    func expireChanges(_ now: UInt64) {
        if changes.first?.place == nil, !changes.isEmpty { changes[0].isAsked = false }
        let expired = changes.filter { $0.deadline <= now }
        guard !expired.isEmpty else { return }
        changes.removeAll { $0.deadline <= now }
        let error = noQuorum
        for change in expired { callbacks.append { change.done(.failure(error)) } }
    }

    func failChanges(_ error: ClusterError) {
        for change in changes { callbacks.append { change.done(.failure(error)) } }
        changes = []
    }

    var notLeader: ClusterError {
        let leader = raft.leader.map { "\($0) does" } ?? "nobody does now"
        return ClusterError(
            code: .notLeader,
            description: "this node does not lead the cluster: \(leader)"
        )
    }
}
