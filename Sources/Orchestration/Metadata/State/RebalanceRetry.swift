package import Vocabulary

/// Whether a rebalance that failed is begun again without anybody asking.
package struct RetrySettings: Hashable, Sendable {
    package static let afterSecondsRange = 5...3_600
    package static let attemptsRange = 1...3

    package var isEnabled = false
    package var afterSeconds: UInt16 = 300
    /// Of one rebalance, after its first one.
    package var attemptsMax: UInt16 = 1

    package init() {}
}

/// A rebalance that failed and is to begin again, or that has begun again.
package struct RebalanceRetry: Hashable, Sendable {
    /// The attempt's: another one than that of the rebalance that failed.
    package var id: String
    package var kept: [NodeNumber]
    package var ejected: [NodeNumber]
    /// This attempt's number, from 1.
    package var attempt: UInt16
    /// By the clock of the leader that saw it fail, since 1970.
    package var dueMilliseconds: UInt64

    package var record: RebalanceRecord {
        RebalanceRecord(
            id: id,
            kind: .rebalance,
            kept: kept,
            ejected: ejected,
            startedMilliseconds: dueMilliseconds
        )
    }

    /// What follows a failed rebalance, if anything.
    ///
    /// - Parameters:
    ///   - record: The one that failed, with the nodes that it has by now.
    ///   - outcome: How it ended.
    ///   - before: The attempt that it was, where it was one.
    ///   - settings: Whether and how often.
    init?(
        after record: RebalanceRecord,
        _ outcome: RebalanceOutcome,
        before: RebalanceRetry?,
        _ settings: RetrySettings
    ) {
        let attempts = before?.id == record.id ? before?.attempt ?? 0 : 0
        guard settings.isEnabled, record.kind == .rebalance, outcome.verdict == .failed,
            attempts < settings.attemptsMax
        else { return nil }
        attempt = attempts + 1
        // All nodes have to come to the same one: the last digits count.
        let stem = record.id.dropLast(2)
        id = stem + (record.id.hasSuffix("a\(attempt)") ? "b\(attempt)" : "a\(attempt)")
        kept = record.kept
        ejected = record.ejected
        dueMilliseconds = outcome.endedMilliseconds &+ UInt64(settings.afterSeconds) * 1_000
    }

    init(
        id: String,
        kept: [NodeNumber],
        ejected: [NodeNumber],
        attempt: UInt16,
        dueMilliseconds: UInt64
    ) {
        self.id = id
        self.kept = kept
        self.ejected = ejected
        self.attempt = attempt
        self.dueMilliseconds = dueMilliseconds
    }
}
