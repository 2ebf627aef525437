internal import Bytes
internal import Consensus
internal import Orchestration
internal import Persistence

/// New epochs: what this node contributes to one, and how it changes to one.
extension ClusterMember {
    /// The member that the store describes.
    ///
    /// - Throws: `ClusterError` if the store cannot be read or is damaged.
    static func reopen(
        _ store: ControlStore,
        _ dependencies: Dependencies
    ) throws(ClusterError) -> ClusterMember {
        try ClusterMember(identity(in: store), store, dependencies)
    }

    /// The node's identity, read from the store.
    ///
    /// - Throws: `ClusterError`: `.damaged` if there is none, or as reading fails.
    static func identity(in store: ControlStore) throws(ClusterError) -> NodeIdentity {
        let bytes: [UInt8]?
        do throws(StorageError) {
            bytes = try store.fact(NodeIdentity.fact)
        } catch {
            throw ClusterError(error)
        }
        guard let bytes, let identity = NodeIdentity(message: bytes) else {
            throw ClusterError(
                code: .damaged,
                description: "\(store.path) does not contain this node's identity. Restore the "
                    + "file from a backup."
            )
        }
        return identity
    }

    /// Replaces this node's history by a new epoch, atomically; returns the error, if any.
    static func keep(
        _ epoch: EpochHandover,
        as identity: NodeIdentity,
        in store: ControlStore
    ) -> StorageError? {
        do throws(StorageError) {
            try RaftBeginning.begin(
                store,
                at: LogPosition(term: epoch.term, index: epoch.index),
                VoterConfiguration(voters: epoch.voters, learners: epoch.learners),
                state: epoch.state,
                facts: [(NodeIdentity.fact, identity.encoded)],
                keepsSeals: true
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

    /// The state with all entries of the log applied, as if they had been agreed on.
    ///
    /// - Throws: `ClusterError` with the code `.otherFormat` if an entry is of an unknown kind.
    func wholeState() throws(ClusterError) -> ClusterState {
        var whole = state
        for (index, bytes) in driver.unapplied {
            guard let envelope = try? ClusterEnvelope(decoding: bytes) else {
                throw ClusterError(
                    code: .otherFormat,
                    description: "entry \(index) of the cluster's log is of a kind that this "
                        + "release does not know. Start the release of the other nodes."
                )
            }
            _ = whole.apply(envelope, at: index)
        }
        return whole
    }

    /// The message with which a member of an earlier epoch adopts this one; nil during a change of
    /// voters.
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
