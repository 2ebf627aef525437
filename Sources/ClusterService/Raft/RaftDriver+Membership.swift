package import Consensus
internal import Seams
package import Vocabulary

/// A change of the voters, until it is done.
struct PendingChange {
    var change: ConfigurationChange
    var deadline: UInt64
    /// Its position in the log; nil until the machine accepted it.
    var place: LogPosition?
    var isAsked = false
    var done: (Result<VoterConfiguration, ClusterError>) -> Void
}

/// Changes of voters and leader; only the leader can make them.
extension RaftDriver {
    /// Changes the members; `done` is called once the change is committed and an automatic joint
    /// configuration is left.
    ///
    /// Changes are made one after the other.
    package func change(
        _ change: ConfigurationChange,
        timeout: UInt64 = 5_000_000_000,
        done: @escaping (Result<VoterConfiguration, ClusterError>) -> Void
    ) {
        guard case .running = life, raft.isLeader else { return done(.failure(notLeader)) }
        changes.append(PendingChange(change: change, deadline: now + timeout, done: done))
        run()
    }

    /// Changes the members, for callers on any thread.
    ///
    /// - Throws: `ClusterError`: `.notLeader`, `.refused` if the change is impossible, `.noQuorum`
    ///   if it was not agreed on in time.
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

    /// Hands the leadership over to another voter; `onChange` reports its result.
    ///
    /// - Returns: Whether the hand-over was started.
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

    /// Changes voters only through a joint configuration, though Raft allows single changes
    /// directly.
    ///
    /// Leases are promised by voters that block every quorum of a configuration, but need not block
    /// those of the next. If one of four voters is removed directly, two of the remaining three
    /// could decide without any voter that promised (`LeaseMistake.changesAtOnce`).
    private func throughBothHalves(_ change: ConfigurationChange) -> ConfigurationChange {
        let now = raft.configuration
        // The machine refuses impossible changes.
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
                description: "the voters cannot be changed: \(Self.sentence(refusal))"
            )
            callbacks.append { first.done(.failure(error)) }
        case .refused: break  // Proposed again at the next tick.
        }
    }

    private static func sentence(_ refusal: ConfigurationRefusal) -> String {
        switch refusal {
        case .noVoterLeft: "no voter would be left"
        case .alreadyJoint: "the previous change is not complete"
        case .notJoint: "no change is under way that could be completed"
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
        let leader = raft.leader.map { "\($0) does" } ?? "no node does at the moment"
        return ClusterError(
            code: .notLeader,
            description: "this node does not lead the cluster; \(leader)"
        )
    }
}
