package import Vocabulary

/// The input of a step.
package enum RaftEvent: Sendable {
    /// One unit of time has passed. If an election timeout has to be drawn, `dice` decides it.
    case tick(dice: UInt32)
    case received(Message)
    case propose([[UInt8]])
    case change(ConfigurationChange)
    /// Requests the index up to which entries must be applied for a linearizable read.
    ///
    /// A read that was forwarded to the leader may get no answer: retry with another `context`.
    case read(context: UInt64)
    case transfer(to: NodeNumber)
    /// Campaign at once, without waiting for the election timeout.
    case campaign
    /// Every write up to this number is on disk.
    case stored(UInt64)
    /// The driver has written a snapshot of its state to disk.
    case snapshotTaken(SnapshotDescription)
    /// Acknowledge no entry from this index on; nil for no limit. Earlier acknowledgements stay
    /// valid.
    case withhold(from: LogIndex?)
    /// A message could not be delivered to that member.
    case unreachable(NodeNumber)
    /// Sending a snapshot to that member has ended.
    case snapshotSent(to: NodeNumber, isDelivered: Bool)
}

/// The output of a step.
///
/// Its parts may be done in any order; `StorageWrite` has an order of its own.
package struct Ready: Sendable {
    /// May be sent now: every write they depend on is on disk.
    package var messages: [Message] = []
    package var write: StorageWrite?
    /// Entries to apply: committed, and on disk here.
    package var toApply: [LogEntry] = []
    package var reads: [ReadAnswer] = []
    package var proposal: ProposalAnswer?
    /// Role, leader or term has changed.
    package var isStateChanged = false

    package var isEmpty: Bool {
        messages.isEmpty && write == nil && toApply.isEmpty && reads.isEmpty && proposal == nil
            && !isStateChanged
    }
}

/// A write for the driver, in the order of the properties, after all writes with lower numbers.
package struct StorageWrite: Sendable {
    package var number: UInt64
    /// Replaces log and state; nil if there is none.
    ///
    /// The next entries to apply follow it.
    package var snapshot: SnapshotDescription?
    /// Replace all stored entries from the index of the first of these on.
    package var entries: [LogEntry]
    /// Nil if unchanged.
    package var hardState: HardState?
}

package struct ReadAnswer: Hashable, Sendable {
    package enum Result: Hashable, Sendable {
        /// The read is linearizable once all entries up to here are applied.
        case index(LogIndex)
        case noLeader
        case leaderChanged
    }

    package var context: UInt64
    package var result: Result

    package init(context: UInt64, result: Result) {
        self.context = context
        self.result = result
    }
}

package enum ProposalAnswer: Hashable, Sendable {
    /// Appended from `first` on. The entries are committed if, at their indexes, entries of this
    /// term are applied.
    case accepted(first: LogPosition, count: Int)
    case refused(ProposalRefusal)
}

/// Why a proposal was refused.
package enum ProposalRefusal: Hashable, Sendable {
    /// Carries the number of the leader; nil if unknown.
    case notLeader(NodeNumber?)
    case transferring(to: NodeNumber)
    case tooMuchUncommitted
    case nothingProposed
    /// The previous change is not committed yet, or no entry of this term is.
    case changeInProgress
    case configuration(ConfigurationRefusal)
    /// The target of a leadership transfer must be another node that is a voter.
    case noSuchVoter
}

/// The output that `step` collects while it runs, and the messages that wait for the disk.
struct Outbox: Sendable {
    struct Waiting: Sendable {
        var number: UInt64
        var message: Message
    }

    var ready = Ready()
    /// Messages of this step to send once every write issued so far is on disk.
    var afterStorage: [Message] = []
    /// Messages of earlier steps, each with the write it waits for.
    var waiting: [Waiting] = []
    /// A received snapshot to store with the next write.
    var snapshot: SnapshotDescription?
    /// The number of the last issued write.
    var writes: UInt64 = 0
    /// The number of the last write that is on disk.
    var stored: UInt64 = 0
    /// The hard state as of the last issued write.
    var saved: HardState
}
