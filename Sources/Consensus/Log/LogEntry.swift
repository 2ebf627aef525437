package import Bytes

/// Number of an election.
///
/// A term has at most one leader.
package typealias Term = UInt64

/// Position of an entry in the log; the first entry has index 1.
package typealias LogIndex = UInt64

/// Identifies an entry: two different entries never have the same term and index.
package struct LogPosition: Hashable, Comparable, Sendable {
    package var term: Term
    package var index: LogIndex

    package init(term: Term, index: LogIndex) {
        self.term = term
        self.index = index
    }

    package static var zero: LogPosition { LogPosition(term: 0, index: 0) }

    /// Orders logs by how up to date they are: by the term of the last entry, then by its index.
    package static func < (one: LogPosition, other: LogPosition) -> Bool {
        (one.term, one.index) < (other.term, other.index)
    }
}

extension LogPosition: CodedFields {
    package init() { self = .zero }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&term, "term of the entry")
        try coder.field(&index, "index of the entry")
    }
}

/// One entry of the log.
package struct LogEntry: Hashable, Sendable {
    package enum Payload: Hashable, Sendable {
        /// The first entry of a new leader: its commit commits the entries of earlier terms.
        case empty
        case command([UInt8])
        /// In force as soon as it is in the log, committed or not (thesis 4.1).
        case configuration(VoterConfiguration)
    }

    package var position: LogPosition
    package var payload: Payload

    package init(term: Term, index: LogIndex, payload: Payload) {
        position = LogPosition(term: term, index: index)
        self.payload = payload
    }

    package var term: Term { position.term }
    package var index: LogIndex { position.index }

    /// Approximate size in memory and on the wire.
    package var bytes: Int {
        guard case .command(let bytes) = payload else { return 16 }
        return 16 + bytes.count
    }
}

/// The bytes of an entry must be followed by no others: a node that skipped a field would store
/// another log than the other nodes.
extension LogEntry: CodedFields {
    package init() { self.init(term: 0, index: 0, payload: .empty) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&position, "position of the entry")
        try coder.field(&payload, "payload of the entry")
    }
}

extension LogEntry.Payload: Coded {
    package func write(to writer: inout FieldWriter) {
        switch self {
        case .empty: writer.kind(0)
        case .command(let bytes): writer.kind(1, bytes)
        case .configuration(let configuration): writer.kind(2, configuration)
        }
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("kind of the entry") {
        case 0: self = .empty
        case 1: self = .command(try reader.payload())
        case 2: self = .configuration(try reader.payload())
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
}

/// The content of a snapshot: all entries up to a position, and the configuration in force there.
///
/// The driver keeps the state itself.
package struct SnapshotDescription: Hashable, Sendable {
    package var position: LogPosition
    package var configuration: VoterConfiguration

    package init(position: LogPosition, configuration: VoterConfiguration) {
        self.position = position
        self.configuration = configuration
    }

    package var index: LogIndex { position.index }
}

extension SnapshotDescription: CodedFields {
    package init() { self.init(position: .zero, configuration: VoterConfiguration()) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&position, "position of the snapshot")
        try coder.field(&configuration, "configuration of the snapshot")
    }
}

/// The state that a node must keep over a restart.
package struct HardState: Hashable, Sendable {
    package var term: Term = 0
    /// The node it voted for in that term; 0 for none.
    package var vote: UInt16 = 0
    /// Stored only to save time after a restart; a leader sends it again.
    package var commit: LogIndex = 0

    package init(term: Term = 0, vote: UInt16 = 0, commit: LogIndex = 0) {
        self.term = term
        self.vote = vote
        self.commit = commit
    }
}
