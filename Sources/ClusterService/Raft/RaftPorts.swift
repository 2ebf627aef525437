package import Consensus
package import Orchestration
package import Vocabulary

/// Carries bytes to the same driver on other nodes.
///
/// It may lose, delay and repeat; it never waits, and what it carries is never answered by itself.
package protocol RaftTransport: AnyObject, Sendable {
    func send(_ bytes: [UInt8], to node: NodeNumber)
}

/// Who asked for a command, and which of its wishes it was.
///
/// The command carries it, and the replicated state takes each only once: so a wish whose fate is
/// unknown can be repeated.
package struct ProposalNumber: Hashable, Sendable {
    package var node: NodeNumber
    /// Another one after each start.
    package var boot: UInt64
    /// Grows by one with every wish of that life.
    package var number: UInt64

    package init(node: NodeNumber, boot: UInt64, number: UInt64) {
        self.node = node
        self.boot = boot
        self.number = number
    }
}

/// What came of an entry, and who may be waiting for it.
package struct AppliedCommand<Outcome: Sendable>: Sendable {
    package var proposal: ProposalNumber?
    package var outcome: Outcome

    package init(proposal: ProposalNumber?, outcome: Outcome) {
        self.proposal = proposal
        self.outcome = outcome
    }
}

/// What the driver needs of the state that all nodes agree on; called on the control lane only.
///
/// - `apply` and `pass` come in the order of the indexes, none left out.
/// - A command whose number was taken before changes nothing, and its outcome says so.
package protocol ReplicatedState: AnyObject, SendableMetatype {
    associatedtype Outcome: Sendable

    /// - Throws: Where the command cannot be understood: the node then takes no further part,
    ///   because to leave one out would make its state another than everybody's.
    func apply(
        _ command: [UInt8],
        at index: UInt64
    ) throws(ClusterError) -> AppliedCommand<Outcome>
    /// The entry at this index is Raft's own.
    func pass(_ index: UInt64)
    /// The state as of now, to be turned into bytes elsewhere and later.
    func snapshot() -> @Sendable () -> [UInt8]
    /// Replaces the state by one that was a snapshot when `index` was applied.
    func restore(_ bytes: [UInt8], at index: UInt64) throws(ClusterError)
    /// What a command in the log does to leases, applied or not.
    func effect(of command: [UInt8]) -> LeasePromises.Effect
    /// The newest applied entry that took writing from each node.
    var deposedAt: [NodeNumber: UInt64] { get }
}

/// Which member a driver is, and how it behaves.
package struct RaftDriverSettings: Sendable {
    package var raft: RaftSettings
    package var node: NodeNumber { raft.node }
    /// Another one after each start.
    package var boot: UInt64
    package var leases: LeaseTerms
    package var tickNanoseconds: UInt64 = 100_000_000
    /// A snapshot is taken when so much was applied since the last one.
    package var snapshotEntries: UInt64 = 10_000
    package var snapshotBytes = 8 << 20
    /// Bytes of one batch of proposals: well below what an append may carry.
    package var batchBytes = 128 << 10

    package init(node: NodeNumber, boot: UInt64, leases: LeaseTerms = LeaseTerms()) {
        raft = RaftSettings(node: node)
        self.boot = boot
        self.leases = leases
    }
}
