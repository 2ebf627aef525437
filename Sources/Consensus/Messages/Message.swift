package import Bytes
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

    package struct VoteRequest: Hashable, Sendable, CodedFields {
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

        package init() { self.init(last: .zero) }

        package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
            try coder.field(&last, "last entry")
            try coder.flags(&isPreVote, &isTransfer, name: "flags of the vote")
        }
    }

    package struct VoteResponse: Hashable, Sendable, CodedFields {
        package var isGranted: Bool
        package var isPreVote: Bool

        package init(isGranted: Bool, isPreVote: Bool = false) {
            self.isGranted = isGranted
            self.isPreVote = isPreVote
        }

        package init() { self.init(isGranted: false) }

        package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
            try coder.flags(&isGranted, &isPreVote, name: "flags of the vote")
        }
    }

    package struct Append: Hashable, Sendable, CodedFields {
        /// The entry before the first of `entries`.
        package var previous: LogPosition
        package var entries: [LogEntry]
        package var commit: LogIndex

        package init(previous: LogPosition, entries: [LogEntry], commit: LogIndex) {
            self.previous = previous
            self.entries = entries
            self.commit = commit
        }

        package init() { self.init(previous: .zero, entries: [], commit: 0) }

        package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
            try coder.field(&previous, "previous entry")
            try coder.field(&commit, "commit index")
            try coder.field(&entries, "entries")
            try coder.require(isWithoutGap, "entries")
        }

        private var isWithoutGap: Bool {
            let indexesLeft = LogIndex.max - previous.index
            return entries.count <= indexesLeft
                && entries.enumerated().allSatisfy { offset, entry in
                    entry.index == previous.index + 1 + LogIndex(offset)
                }
        }
    }

    package enum AppendResponse: Hashable, Sendable {
        /// The log on disk agrees with the leader's up to `received`. The leader counts this node
        /// up to `acknowledged`, which is lower while the driver withholds.
        case accepted(received: LogIndex, acknowledged: LogIndex)
        /// The entry before the append is missing or of another term; the logs may agree at `hint`.
        case rejected(previous: LogIndex, hint: LogPosition)
    }

    package struct Heartbeat: Hashable, Sendable, CodedFields {
        /// The leader's commit index, but at most what the receiver has acknowledged.
        package var commit: LogIndex
        /// Counts the rounds of heartbeats: answers of a quorum prove that the sender still led
        /// when the round began.
        package var round: UInt64

        package init(commit: LogIndex, round: UInt64) {
            self.commit = commit
            self.round = round
        }

        package init() { self.init(commit: 0, round: 0) }

        package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
            try coder.field(&commit, "commit index")
            try coder.field(&round, "round")
        }
    }
}

// MARK: Encoding

/// A version, a kind, and the fields. A message may end with fields that this release does not
/// know: decode it with `skipsRest`.
///
/// - Every proper prefix of a message is an error.
extension Message: Coded {
    private static let version: UInt8 = 1
    /// Maximal size of an encoded message: larger than any append.
    package static let bytesMax = 32 << 20

    package func write(to writer: inout FieldWriter) {
        Self.version.write(to: &writer)
        let header = MessageHeader(from: from, to: to, term: term)
        switch body {
        case .voteRequest(let request): writer.kind(1, header, request)
        case .voteResponse(let response): writer.kind(2, header, response)
        case .append(let append): writer.kind(3, header, append)
        case .appendResponse(.accepted(let received, let acknowledged)):
            writer.kind(4, header, received, acknowledged)
        case .appendResponse(.rejected(let previous, let hint)):
            writer.kind(5, header, previous, hint)
        case .heartbeat(let beat): writer.kind(6, header, beat)
        case .heartbeatResponse(let round): writer.kind(7, header, round)
        case .snapshot(let snapshot): writer.kind(8, header, snapshot)
        case .timeoutNow: writer.kind(9, header)
        case .readRequest(let context): writer.kind(10, header, context)
        case .readResponse(let context, let index): writer.kind(11, header, context, index)
        case .newerTerm: writer.kind(12, header)
        }
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        let count = reader.bytesLeft
        try reader.require(count <= Self.bytesMax, "size of the message")
        let version = try reader.kind("version of the message")
        try reader.require(version == Self.version, "version of the message")
        let kind = try reader.kind("kind of the message")
        let afterKind = reader
        let header: MessageHeader = try reader.payload()
        body =
            switch kind {
            case 1: .voteRequest(try reader.payload())
            case 2: .voteResponse(try reader.payload())
            case 3: .append(try reader.payload())
            case 4:
                .appendResponse(
                    .accepted(received: try reader.payload(), acknowledged: try reader.payload())
                )
            case 5:
                .appendResponse(
                    .rejected(previous: try reader.payload(), hint: try reader.payload())
                )
            case 6: .heartbeat(try reader.payload())
            case 7: .heartbeatResponse(round: try reader.payload())
            case 8: .snapshot(try reader.payload())
            case 9: .timeoutNow
            case 10: .readRequest(context: try reader.payload())
            case 11: .readResponse(context: try reader.payload(), index: try reader.payload())
            case 12: .newerTerm
            default: throw afterKind.failure(.unknownKind(kind))
            }
        (from, to, term) = (header.from, header.to, header.term)
    }
}

/// The fields that follow the kind in every message.
private struct MessageHeader: CodedFields {
    var from = NodeNumber(0)
    var to = NodeNumber(0)
    var term: Term = 0

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.fixed(&from, "sender")
        try coder.fixed(&to, "receiver")
        try coder.field(&term, "term")
    }
}
