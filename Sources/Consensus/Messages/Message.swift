package import Vocabulary

/// What one node says to another.
package struct Message: Hashable, Sendable {
    package var from: NodeNumber
    package var to: NodeNumber
    package var term: Term
    package var body: Body

    package init(from: NodeNumber, to: NodeNumber, term: Term, body: Body) {
        self.from = from
        self.to = to
        self.term = term
        self.body = body
    }

    package enum Body: Hashable, Sendable {
        case voteRequest(VoteRequest)
        case voteResponse(VoteResponse)
        case append(Append)
        case appendResponse(AppendResponse)
        case heartbeat(Heartbeat)
        case heartbeatResponse(round: UInt64)
        /// The driver sends the state with it, in pieces, and hands this on when all of it is
        /// stored at the other end.
        case snapshot(SnapshotDescription)
        /// "Stand for election now": the leader hands over.
        case timeoutNow
        case readRequest(context: UInt64)
        case readResponse(context: UInt64, index: LogIndex)
        /// Nothing but a term, for a leader that does not know it was replaced.
        case newerTerm
    }

    package struct VoteRequest: Hashable, Sendable {
        /// Where the candidate's log ends.
        package var last: LogPosition
        /// Only asks whether an election would be won: nobody's term or vote changes.
        package var isPreVote: Bool
        /// The leader wants it: whoever still hears the leader votes all the same.
        package var isTransfer: Bool

        package init(last: LogPosition, isPreVote: Bool = false, isTransfer: Bool = false) {
            self.last = last
            self.isPreVote = isPreVote
            self.isTransfer = isTransfer
        }
    }

    package struct VoteResponse: Hashable, Sendable {
        package var isGranted: Bool
        package var isPreVote: Bool

        package init(isGranted: Bool, isPreVote: Bool = false) {
            self.isGranted = isGranted
            self.isPreVote = isPreVote
        }
    }

    package struct Append: Hashable, Sendable {
        /// The entry before the first of `entries`.
        package var previous: LogPosition
        package var entries: [LogEntry]
        package var commit: LogIndex

        package init(previous: LogPosition, entries: [LogEntry], commit: LogIndex) {
            self.previous = previous
            self.entries = entries
            self.commit = commit
        }
    }

    package enum AppendResponse: Hashable, Sendable {
        /// The log agrees with the leader's up to `received`, on disk; the leader may count this
        /// node up to `acknowledged`, which is less while the driver withholds.
        case accepted(received: LogIndex, acknowledged: LogIndex)
        /// There is no such previous entry; the logs may agree at `hint`.
        case rejected(previous: LogIndex, hint: LogPosition)
    }

    package struct Heartbeat: Hashable, Sendable {
        /// Never beyond what the receiver has acknowledged.
        package var commit: LogIndex
        /// Counts the leader's rounds: an answer proves that it still led when the round began.
        package var round: UInt64

        package init(commit: LogIndex, round: UInt64) {
            self.commit = commit
            self.round = round
        }
    }
}
