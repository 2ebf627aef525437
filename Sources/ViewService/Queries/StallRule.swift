/// Decides when a query that its client reads slowly must release its snapshot.
///
/// The write-ahead log of an index cannot begin again from its start while a snapshot of it is open:
/// every commit makes it longer. A snapshot costs nothing while the log is short, so the rule counts
/// how long the query has waited for credit, and ends it only if the log is large as well.
package struct StallRule: Sendable {
    /// When a query ends; tests may set others.
    package struct Limits: Hashable, Sendable {
        /// How long a query may wait for its client in all, while the log is large.
        package var stalledNanosecondsMax: UInt64 = 10_000_000_000
        /// The size from which on the log is large: four times the size from which on commits wait
        /// for checkpoints (256 MiB).
        package var walPagesMax = (256 << 20) / 4_096

        package init() {}
    }

    /// For the client, in `errors`.
    package static let reason =
        "The query was read too slowly: its snapshot of the index is too old, and was released. Rows"
        + " of the node are missing. Read the rows faster, or read them in pages with startkey,"
        + " startkey_docid and limit."

    private let limits: Limits
    /// The time of earlier waits.
    private var past: UInt64 = 0
    /// Since when the query waits; nil while it reads.
    private var since: UInt64?

    /// The rule for a query that has not waited.
    package init(_ limits: Limits = Limits()) {
        self.limits = limits
    }

    /// The query waits for credit from now on.
    package mutating func stall(_ now: UInt64) {
        if since == nil { since = now }
    }

    /// The query reads again.
    package mutating func resume(_ now: UInt64) {
        if let since { past += now - min(since, now) }
        since = nil
    }

    /// Whether the query must end, with a log of so many pages.
    package func isOver(_ now: UInt64, walPages: Int) -> Bool {
        let waiting = since.map { now - min($0, now) } ?? 0
        return walPages >= limits.walPagesMax && past + waiting >= limits.stalledNanosecondsMax
    }
}
