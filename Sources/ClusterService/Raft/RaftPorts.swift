package import Consensus
package import Orchestration
package import Vocabulary

/// Carries frames to the drivers of other nodes.
///
/// It may lose, delay and repeat frames. It never blocks and returns no answers.
package protocol RaftTransport: AnyObject, Sendable {
    func send(_ bytes: [UInt8], to node: NodeNumber)
}

/// Identifies a proposal: the proposing node, its start, and a number.
///
/// The command contains it, and the replicated state applies each number only once: so a proposal
/// of unknown outcome can be repeated.
package struct ProposalNumber: Hashable, Sendable {
    package var node: NodeNumber
    /// Random, different after each start.
    package var boot: UInt64
    /// Grows by one with every proposal since that start.
    package var number: UInt64

    package init(node: NodeNumber, boot: UInt64, number: UInt64) {
        self.node = node
        self.boot = boot
        self.number = number
    }
}

/// The outcome of an applied entry, and the proposal that may wait for it.
package struct AppliedCommand<Outcome: Sendable>: Sendable {
    package var proposal: ProposalNumber?
    package var outcome: Outcome

    package init(proposal: ProposalNumber?, outcome: Outcome) {
        self.proposal = proposal
        self.outcome = outcome
    }
}

/// The replicated state, as the driver uses it; called on the control lane only.
///
/// - `apply` and `pass` are called in the order of the indexes, without gaps.
/// - A command whose number was applied before changes nothing, and its outcome reports that.
package protocol ReplicatedState: AnyObject, SendableMetatype {
    associatedtype Outcome: Sendable

    /// - Throws: If the command cannot be decoded. The node then takes no further part: skipping
    ///   the command would make its state differ from the other nodes'.
    func apply(
        _ command: [UInt8],
        at index: UInt64
    ) throws(ClusterError) -> AppliedCommand<Outcome>
    /// The entry at this index is Raft's own and changes nothing.
    func pass(_ index: UInt64)
    /// Captures the current state; the result is encoded later, on another lane.
    func snapshot() -> @Sendable () -> [UInt8]
    /// Replaces the state by a snapshot that was taken when `index` was applied.
    ///
    /// - Throws: `ClusterError` if the snapshot cannot be decoded.
    func restore(_ bytes: [UInt8], at index: UInt64) throws(ClusterError)
    /// The effect of a command in the log on leases, applied or not.
    func effect(of command: [UInt8]) -> LeasePromises.Effect
    /// By node: the newest applied entry that deposed it.
    var deposedAt: [NodeNumber: UInt64] { get }
}

/// The identity and the settings of a driver's member.
package struct RaftDriverSettings: Sendable {
    package var raft: RaftSettings
    package var node: NodeNumber { raft.node }
    /// Random, different after each start.
    package var boot: UInt64
    package var leases: LeaseTerms
    package var tickNanoseconds: UInt64 = 100_000_000
    /// A snapshot is taken after so many entries since the last one.
    package var snapshotEntries: UInt64 = 10_000
    package var snapshotBytes = 8 << 20
    /// The most bytes in one batch of proposals: well below what an append message may carry.
    package var batchBytes = 128 << 10

    package init(node: NodeNumber, boot: UInt64, leases: LeaseTerms = LeaseTerms()) {
        raft = RaftSettings(node: node)
        self.boot = boot
        self.leases = leases
    }
}
