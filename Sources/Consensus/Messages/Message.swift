package import Vocabulary

/// A message from one member to another.
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
        /// The driver sends the state with it, in pieces. At the receiver it passes this message on
        /// once the whole state is stored.
        case snapshot(SnapshotDescription)
        /// The leader transfers its leadership: the receiver campaigns at once.
        case timeoutNow
        case readRequest(context: UInt64)
        case readResponse(context: UInt64, index: LogIndex)
        /// Carries only a term, for a leader that does not know that it was deposed.
        case newerTerm
    }

    package struct VoteRequest: Hashable, Sendable {
        /// The last entry of the candidate's log.
        package var last: LogPosition
        /// Only asks whether the sender would win an election: no term and no vote changes.
        package var isPreVote: Bool
        /// Part of a leadership transfer: a member that still hears the leader votes nonetheless.
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
        /// The log on disk agrees with the leader's up to `received`. The leader counts this node
        /// up to `acknowledged`, which is lower while the driver withholds.
        case accepted(received: LogIndex, acknowledged: LogIndex)
        /// The entry before the append is missing or of another term; the logs may agree at `hint`.
        case rejected(previous: LogIndex, hint: LogPosition)
    }

    package struct Heartbeat: Hashable, Sendable {
        /// The leader's commit index, but at most what the receiver has acknowledged.
        package var commit: LogIndex
        /// Counts the rounds of heartbeats: answers of a quorum prove that the sender still led
        /// when the round began.
        package var round: UInt64

        package init(commit: LogIndex, round: UInt64) {
            self.commit = commit
            self.round = round
        }
    }
}
