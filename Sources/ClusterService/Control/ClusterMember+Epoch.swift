internal import Bytes
internal import Consensus
internal import Orchestration
internal import Persistence
internal import Seams
internal import Vocabulary

/// New epochs: what this node can give to one, and how it goes over to one.
extension ClusterMember {
    /// The member that this store says the node is, whatever came before.
    static func reopen(
        _ store: ControlStore,
        _ surroundings: Surroundings
    ) throws(ClusterError) -> ClusterMember {
        try ClusterMember(identity(in: store), store, surroundings)
    }

    /// Who the node is, as its disk says.
    static func identity(in store: ControlStore) throws(ClusterError) -> NodeIdentity {
        let bytes: [UInt8]?
        do throws(StorageError) {
            bytes = try store.fact(NodeIdentity.fact)
        } catch {
            throw ClusterError(error)
        }
        guard let bytes, let identity = NodeIdentity(bytes: bytes) else {
            throw ClusterError(
                code: .damaged,
                description: "\(store.path) does not say which node this is"
            )
        }
        return identity
    }

    /// Puts a new epoch in the place of this node's history: all of it, or nothing.
    static func keep(
        _ epoch: EpochHandover,
        as identity: NodeIdentity,
        in store: ControlStore
    ) -> StorageError? {
        do throws(StorageError) {
            try RaftBeginning.renew(
                store,
                at: LogPosition(term: epoch.term, index: epoch.index),
                VoterConfiguration(voters: epoch.voters, learners: epoch.learners),
                state: epoch.state,
                facts: [(NodeIdentity.fact, identity.bytes)]
            )
            return nil
        } catch {
            return error
        }
    }

    var epochPosition: EpochPosition {
        let (term, last) = driver.logEnd
        return EpochPosition(
            group: identity.groupID,
            epoch: identity.epoch,
            term: term,
            lastTerm: last.term,
            lastIndex: last.index
        )
    }

    /// The state with all of the log, as if every entry of it had been agreed on.
    func wholeState() throws(ClusterError) -> ClusterState {
        var whole = state
        for (index, bytes) in driver.unapplied {
            guard let envelope = ClusterEnvelope.decode(bytes) else {
                throw ClusterError(
                    code: .newerSchema,
                    description: "entry \(index) of the cluster's log is of a kind that this "
                        + "release does not know"
                )
            }
            _ = whole.apply(envelope, at: index)
        }
        return whole
    }

    /// What brings a node of an earlier epoch into this one; nil while that cannot be said.
    var handover: EpochHandover? {
        guard let standing = driver.standing else { return nil }
        return EpochHandover(
            epoch: state.revEpoch,
            group: state.groupID,
            past: state.pastGroups,
            term: standing.position.term,
            index: standing.position.index,
            voters: standing.configuration.voters,
            learners: standing.configuration.learners,
            state: state.encoded()
        )
    }
}
