package import Vocabulary

/// What the cluster is about to become: all that a new leader needs to go on.
package struct RebalanceRecord: Hashable, Sendable {
    package enum Kind: UInt8, Sendable {
        case rebalance = 0
        /// Moves everything away from the ejected nodes, which are failed over in the end.
        case gracefulFailover = 1
    }

    /// 32 hexadecimal digits, chosen by the proposer.
    package var id: String
    package var kind: Kind
    /// Nodes that hold data afterwards.
    package var kept: [NodeNumber]
    /// Nodes that hold none afterwards.
    package var ejected: [NodeNumber]
    /// Kept nodes that come back with their old copies.
    package internal(set) var delta: [NodeNumber] = []
    /// By the proposer's clock, since 1970.
    package var startedMilliseconds: UInt64
    /// The bucket whose copies are being moved.
    package internal(set) var bucket: String?
    /// For whoever leads next, and where nobody does.
    package internal(set) var reached = RebalanceMark()

    package init(
        id: String,
        kind: Kind,
        kept: [NodeNumber],
        ejected: [NodeNumber],
        startedMilliseconds: UInt64
    ) {
        self.id = id
        self.kind = kind
        self.kept = kept
        self.ejected = ejected
        self.startedMilliseconds = startedMilliseconds
    }
}

/// How the last rebalance ended.
package struct RebalanceOutcome: Hashable, Sendable {
    package enum Verdict: UInt8, Sendable {
        case completed = 0
        case stopped = 1
        case failed = 2
    }

    package var id: String
    package internal(set) var kind = RebalanceRecord.Kind.rebalance
    package var verdict: Verdict
    /// For a person: why it failed, or what is worth knowing.
    package var sentence: String
    package var endedMilliseconds: UInt64

    package init(id: String, verdict: Verdict, sentence: String, endedMilliseconds: UInt64) {
        self.id = id
        self.verdict = verdict
        self.sentence = sentence
        self.endedMilliseconds = endedMilliseconds
    }
}
