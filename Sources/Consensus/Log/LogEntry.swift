/// Counts elections: at most one leader a term.
package typealias Term = UInt64

/// The place of an entry in the log: 1 for the first.
package typealias LogIndex = UInt64

/// An entry's name: no two different entries ever have the same.
package struct LogPosition: Hashable, Comparable, Sendable {
    package var term: Term
    package var index: LogIndex

    package init(term: Term, index: LogIndex) {
        self.term = term
        self.index = index
    }

    package static var zero: LogPosition { LogPosition(term: 0, index: 0) }

    /// The order in which logs are up to date: the last entry's term, then its index.
    package static func < (one: LogPosition, other: LogPosition) -> Bool {
        (one.term, one.index) < (other.term, other.index)
    }
}

/// One entry of the log.
package struct LogEntry: Hashable, Sendable {
    package enum Payload: Hashable, Sendable {
        /// A new leader's first: it commits what earlier terms left.
        case empty
        case command([UInt8])
        /// In force from the moment it stands in the log, committed or not (thesis 4.1).
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

    /// Roughly what it costs in memory and on the wire.
    package var bytes: Int {
        guard case .command(let bytes) = payload else { return 16 }
        return 16 + bytes.count
    }
}

/// What a snapshot stands for: everything up to a position, and who voted there.
///
/// The state itself is the driver's.
package struct SnapshotDescription: Hashable, Sendable {
    package var position: LogPosition
    package var configuration: VoterConfiguration

    package init(position: LogPosition, configuration: VoterConfiguration) {
        self.position = position
        self.configuration = configuration
    }

    package var index: LogIndex { position.index }
}

/// What a node may never forget.
package struct HardState: Hashable, Sendable {
    package var term: Term = 0
    /// Whom it voted for in that term: 0 for nobody.
    package var vote: UInt16 = 0
    /// Only saves time after a restart: a leader says it anew.
    package var commit: LogIndex = 0

    package init(term: Term = 0, vote: UInt16 = 0, commit: LogIndex = 0) {
        self.term = term
        self.vote = vote
        self.commit = commit
    }
}
