package import Vocabulary

/// An output of the `Reconciler`: the caller performs it, and returns its result under the call's number.
package enum LeaderAction: Hashable, Sendable {
    /// Propose a command as the leader.
    case propose(Proposal, call: UInt64)
    /// Ask nodes about copies of a bucket, all at once.
    case ask(CopyQuestion, call: UInt64)
    /// Change the voters and learners of the cluster's log.
    case changeVoters([VoterStep], call: UInt64)
    /// Hand the leadership over to a voter.
    case transferLeadership(to: NodeNumber)
    /// Forget the beats of a node that left the service.
    case forgetBeats(of: NodeNumber)
    /// Write a sentence for operators to the event log.
    case log(Level, Subject, String)
    /// Answer the failover that was requested under this number.
    case answerFailover(UInt64, FailoverResult)

    /// A command to be appended to the cluster's log.
    package struct Proposal: Hashable, Sendable {
        package var command: ClusterCommand
        /// The administrator or local user that ordered it; nil for the cluster itself.
        package var login: String?
        /// Whether the caller proposes it again until its outcome is known, as long as it leads.
        package var isRepeated = false
    }

    package enum Level: Hashable, Sendable {
        case info
        case warning
        case error
    }

    package enum Subject: Hashable, Sendable {
        case node
        case rebalance
    }
}

/// A step of a change of the log's voters.
package enum VoterStep: Hashable, Sendable {
    case addVoter(NodeNumber)
    case addLearner(NodeNumber)
    case remove(NodeNumber)
}

/// The result of a failover.
package enum FailoverResult: Hashable, Sendable {
    /// `possiblyLost`: the least number of changes that only the failed-over nodes had.
    case done(possiblyLost: UInt64, sentence: String)
    /// Nothing was changed: what would be lost, or why the failover is impossible.
    case refused(String)
}

/// By node: the reports of its copies of one bucket; a node that did not answer is missing.
package typealias CopyReports = [NodeNumber: [VBucketID: CopyReport]]

/// A question to nodes about copies of one bucket, many vBuckets for each node.
package struct CopyQuestion: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// Report these copies; without vBuckets all copies of the node.
        case reports([NodeNumber: [FencedVBucket]])
        /// Accept no more changes from the active copies of these fences, for good.
        case seal([NodeNumber: [FencedVBucket]])
        /// Activate chosen copies.
        case activate([NodeNumber: [ActivationSubject]])
        /// Stop the service of active copies, for good.
        case handOver([NodeNumber: [FencedVBucket]])
    }

    /// A node answers in milliseconds unless it is behind in the log or down.
    package static let timeoutNanoseconds: UInt64 = 2_000_000_000
    /// The time of a node whose beat arrived just now to stop its copies.
    package static let stopTimeoutNanoseconds: UInt64 = 300_000_000
    /// A hand-over waits for open durable writes, and for the last changes to arrive.
    package static let handOverTimeoutNanoseconds: UInt64 = 5_000_000_000

    package var bucketUUID: String
    /// The log index that a node applies before it answers.
    package var index: UInt64
    package var kind: Kind
    package var timeoutNanoseconds = Self.timeoutNanoseconds

    init(_ kind: Kind, of bucket: BucketRecord, at index: UInt64) {
        self.kind = kind
        self.index = index
        bucketUUID = bucket.settings.uuid
        if case .handOver = kind { timeoutNanoseconds = Self.handOverTimeoutNanoseconds }
    }
}

/// The result of an action, given back to the `Reconciler`.
package enum ActionResult: Sendable {
    /// Nil if the outcome of a proposal is unknown, or this node does not lead.
    case outcome(ClusterOutcome?)
    /// The answers to questions for reports, and to seals.
    case reports(CopyReports)
    /// By node that answered: the vBuckets that are ready to serve.
    case activated([NodeNumber: Set<VBucketID>])
    /// The last seqno of each copy that was handed over.
    case handedOver([VBucketID: Seqno])
    /// The voters were changed, or the change failed and is tried again.
    case done
}
