internal import Bytes
internal import Orchestration
internal import Vocabulary

/// The outcome of a command, and of carrying it out on this node.
struct ProposalResult: Sendable {
    var outcome: ClusterOutcome
    /// Why the data plane could not carry it out; nil if it did.
    var failure: DataPlaneError?
}

/// The cluster's state as the state that Raft replicates.
///
/// - Belongs to the control lane.
/// - While a node starts, its log is applied but not carried out; the whole state is carried out
///   once it is current.
final class ClusterLog: ReplicatedState, @unchecked Sendable {  // tidy:allow the control lane's
    private(set) var state: ClusterState
    /// Carries out applied changes on the control lane, once for each entry.
    weak var follower: MapApplier?
    /// The highest feature level that this node understands.
    private let level: FeatureLevel

    init(memoryQuota: UInt64, level: FeatureLevel) {
        state = ClusterState(memoryQuota: memoryQuota)
        self.level = level
    }

    func apply(
        _ command: [UInt8],
        at index: UInt64
    ) throws(ClusterError) -> AppliedCommand<ProposalResult> {
        guard let envelope = try? ClusterEnvelope(decoding: command) else {
            throw ClusterError(
                code: .otherFormat,
                description: "entry \(index) of the cluster's log is of a kind that this release "
                    + "does not know. Start the release of the other nodes."
            )
        }
        let before = state
        let outcome = state.apply(envelope, at: index)
        try requireLevel()
        follower?.proposalApplied(envelope, at: index, outcome, before: before)
        let failure = follower?.stateChanged(from: before, to: state, outcome.effects)
        let number = ProposalNumber(
            node: envelope.proposer,
            boot: envelope.boot,
            number: envelope.number
        )
        return AppliedCommand(
            proposal: number,
            outcome: ProposalResult(outcome: outcome, failure: failure)
        )
    }

    /// Does nothing: the state's indexes may have gaps.
    func pass(_ index: UInt64) {}

    func snapshot() -> @Sendable () -> [UInt8] {
        let state = state
        return { state.encoded() }
    }

    func restore(_ bytes: [UInt8], at index: UInt64) throws(ClusterError) {
        let before = state
        state = try Self.decode(bytes)
        try requireLevel()
        follower?.stateReplaced(from: before, by: state)
    }

    private func requireLevel() throws(ClusterError) {
        if let levelError { throw levelError }
    }

    /// Why this node cannot follow the cluster that it is in; nil if it understands all that the
    /// cluster uses.
    var levelError: ClusterError? {
        guard state.featureLevel > level else { return nil }
        return ClusterError(
            code: .otherFormat,
            description:
                "the cluster uses feature level \(state.featureLevel.number), and this node "
                + "understands levels up to \(level.number) only: start the release that the other "
                + "nodes have, or a later one"
        )
    }

    static func decode(_ bytes: [UInt8]) throws(ClusterError) -> ClusterState {
        switch ClusterState.decode(bytes) {
        case .state(let state): return state
        case .otherSchema(let schema):
            throw ClusterError(
                code: .otherFormat,
                description: Release.refusal(
                    of: "the cluster's state",
                    format: Int(schema),
                    expected: Int(ClusterState.schema)
                )
            )
        case .damaged:
            throw ClusterError(
                code: .damaged,
                description: "the cluster's state is damaged: its checksum does not match its "
                    + "content. Restore the control file from a backup."
            )
        }
    }

    func effect(of command: [UInt8]) -> LeasePromises.Effect {
        let envelope = try? ClusterEnvelope(decoding: command)
        return envelope.map { ClusterState.effect(of: $0.command) } ?? .none
    }

    var deposedAt: [NodeNumber: UInt64] { state.deposedAt }
}
