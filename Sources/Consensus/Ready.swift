package import Vocabulary

/// What comes in.
package enum RaftEvent: Sendable {
    /// Time passes. The dice decide how long the next wait for a leader is, should one begin.
    case tick(dice: UInt32)
    case received(Message)
    case propose([[UInt8]])
    case change(ConfigurationChange)
    /// "Which index must I have applied to read what is current now?"
    ///
    /// A question that wandered to the leader may stay without an answer: ask again, with another
    /// number.
    case read(context: UInt64)
    case transfer(to: NodeNumber)
    /// Stands for election at once.
    case campaign
    /// Every write up to this number is on disk.
    case stored(UInt64)
    /// The driver's state has a snapshot on disk.
    case snapshotTaken(SnapshotDescription)
    /// From this index on nothing is acknowledged until told otherwise; nil for no limit. What was
    /// acknowledged before stays so.
    case withhold(from: LogIndex?)
    /// A message did not reach that member.
    case unreachable(NodeNumber)
    case snapshotSent(to: NodeNumber, isDelivered: Bool)
}

/// What is to be done, all at once but for the order inside `write`.
package struct Ready: Sendable {
    /// May leave now: whatever they rest on is on disk.
    package var messages: [Message] = []
    package var write: StorageWrite?
    /// Committed, and on disk here.
    package var toApply: [LogEntry] = []
    package var reads: [ReadAnswer] = []
    package var proposal: ProposalAnswer?
    /// Role, leader or term are others than before.
    package var isStateChanged = false

    package var isEmpty: Bool {
        messages.isEmpty && write == nil && toApply.isEmpty && reads.isEmpty && proposal == nil
            && !isStateChanged
    }
}

/// What the disk has to take, in this order, after all writes with lower numbers.
package struct StorageWrite: Sendable {
    package var number: UInt64
    /// Replaces log and state; the next entries to apply build on it.
    package var snapshot: SnapshotDescription?
    /// Replaces everything that the log has from the first of them on.
    package var entries: [LogEntry]
    package var hardState: HardState?
}

package struct ReadAnswer: Hashable, Sendable {
    package enum Result: Hashable, Sendable {
        /// Current once everything up to here is applied.
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
    /// In the log from `first` on; committed if an entry of this term is applied there.
    case accepted(first: LogPosition, count: Int)
    case refused(ProposalRefusal)
}

/// Why a proposal went nowhere.
package enum ProposalRefusal: Hashable, Sendable {
    case notLeader(NodeNumber?)
    case transferring(to: NodeNumber)
    case tooMuchUncommitted
    case nothingProposed
    /// The change before is not committed, or nothing of this term is.
    case changeInProgress
    case configuration(ConfigurationRefusal)
    /// Only a voter can take over, and only another one.
    case noSuchVoter
}

/// What `step` gathers on its way.
struct Outbox: Sendable {
    struct Waiting: Sendable {
        var number: UInt64
        var message: Message
    }

    var ready = Ready()
    /// Leave when everything handed out so far is on disk.
    var afterStorage: [Message] = []
    var waiting: [Waiting] = []
    var snapshot: SnapshotDescription?
    var writes: UInt64 = 0
    var stored: UInt64 = 0
    /// What the disk was last told.
    var saved: HardState

    init(saved: HardState) {
        self.saved = saved
    }
}
