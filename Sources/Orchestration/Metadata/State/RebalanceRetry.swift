package import Bytes
package import Vocabulary

/// Whether a failed rebalance is retried automatically.
package struct RetrySettings: Hashable, Sendable, CodedFields {
    package static let afterSecondsRange = 5...3_600
    package static let attemptsRange = 1...3

    package var isEnabled = false
    package var afterSeconds: UInt16 = 300
    /// Retries of one rebalance, not counting its first attempt.
    package var attemptsMax: UInt16 = 1

    package init() {}

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&isEnabled, "retries")
        try coder.field(&afterSeconds, "delay")
        try coder.field(&attemptsMax, "allowed attempts")
    }
}

/// A failed rebalance that is to be retried, or the retry that runs.
package struct RebalanceRetry: Hashable, Sendable, CodedFields {
    /// The id of this attempt; differs from that of the failed rebalance.
    package var id = ""
    package var kept: [NodeNumber] = []
    package var ejected: [NodeNumber] = []
    /// This attempt's number, from 1.
    package var attempt: UInt16 = 0
    /// By the clock of the leader that ended the failed rebalance, since the Unix epoch.
    package var dueMilliseconds: UInt64 = 0
    /// The administrator or local user that ordered the first attempt.
    package var login: String?

    package init() {}

    package var record: RebalanceRecord {
        var record = RebalanceRecord(
            id: id,
            kind: .rebalance,
            kept: kept,
            ejected: ejected,
            startedMilliseconds: dueMilliseconds
        )
        record.login = login
        return record
    }

    /// The retry that follows a failed rebalance; nil if none does.
    ///
    /// - Parameters:
    ///   - record: The rebalance that ended, with its present nodes.
    ///   - outcome: How it ended.
    ///   - before: The retry stored in the state; it is this rebalance if the ids match.
    ///   - settings: Whether and how often to retry.
    init?(
        after record: RebalanceRecord,
        _ outcome: RebalanceOutcome,
        before: RebalanceRetry?,
        _ settings: RetrySettings
    ) {
        let attempts = before?.id == record.id ? before?.attempt ?? 0 : 0
        guard settings.isEnabled, record.kind == .rebalance, outcome.ending == .failed,
            attempts < settings.attemptsMax
        else { return nil }
        attempt = attempts + 1
        // Every node must derive the same id, so it cannot be random: the last two digits change.
        let stem = record.id.dropLast(2)
        id = stem + (record.id.hasSuffix("a\(attempt)") ? "b\(attempt)" : "a\(attempt)")
        kept = record.kept
        ejected = record.ejected
        login = record.login
        dueMilliseconds = outcome.endedMilliseconds &+ UInt64(settings.afterSeconds) * 1_000
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&id, "id")
        try coder.field(&kept, "kept nodes")
        try coder.field(&ejected, "ejected nodes")
        try coder.field(&attempt, "attempt")
        try coder.field(&dueMilliseconds, "due time")
        try coder.optional(&login, "login")
    }
}
