/// When the mapped changes of an index are committed.
///
/// A commit costs the same few hundred microseconds for one change or for a hundred, so commits wait
/// for more changes: briefly if a query waits for them, longer if none does, and longer still if the
/// last commit was expensive. While the index is built, commits are large: keys of documents are
/// spread over the whole tree, so that each leaf is rewritten for fewer rows the smaller a commit is.
/// Times are monotonic nanoseconds.
package struct CommitTrigger: Sendable {
    /// The pauses and sizes; tests and the simulator may set others.
    package struct Limits: Hashable, Sendable {
        /// From the first change, if a query waits.
        package var hurriedNanoseconds: UInt64 = 5_000_000
        /// From the first change, if no query waits.
        package var pauseNanoseconds: UInt64 = 20_000_000
        /// The pause is at least this multiple of the last commit's cost, up to `pauseMaxNanoseconds`,
        /// so that commits of an index take at most a fifth of a core.
        ///
        /// A larger factor feeds itself: a longer pause collects more documents, so that the next
        /// commit costs more.
        package var costFactor: UInt64 = 4
        /// A commit is due at this size at once.
        package var documentsMax = 5_000
        package var bytesMax = 4 << 20
        /// The cost stretches the pause to this at most: a change is to be visible within 100 ms in
        /// the median.
        package var pauseMaxNanoseconds: UInt64 = 100_000_000
        /// The pause while the index is built, and no query waits.
        package var buildPauseNanoseconds: UInt64 = 1_000_000_000
        /// While the index is built and no query waits, a commit is due at this size at once.
        ///
        /// The bytes are those of rows before their changes are sorted; a commit needs about three
        /// times as much memory.
        package var buildDocumentsMax = 20_000
        package var buildBytesMax = 16 << 20

        package init() {}
    }

    private let limits: Limits
    private var documents = 0
    private var bytes = 0
    private var firstAt: UInt64?
    private var lastCost: UInt64 = 0
    /// Whether a query waits that the next commits can end: one that waits for vBuckets of which
    /// much is unread is none.
    package var isAwaited = false
    /// Whether vBuckets are filled, and further documents are being mapped.
    package var isBuilding = false

    package init(_ limits: Limits = Limits()) {
        self.limits = limits
    }

    /// Whether no change is pending.
    package var isEmpty: Bool { firstAt == nil }

    /// Changes were mapped, or positions have advanced.
    ///
    /// - Parameters:
    ///   - documents: The changes; 0 if only a position has advanced.
    ///   - bytes: Their keys and values.
    ///   - now: The time.
    package mutating func add(documents: Int, bytes: Int, now: UInt64) {
        firstAt = firstAt ?? now
        self.documents += documents
        self.bytes += bytes
    }

    /// A commit has stored everything that was added.
    package mutating func committed(costNanoseconds: UInt64) {
        (documents, bytes, firstAt) = (0, 0, nil)
        lastCost = costNanoseconds
    }

    /// The pending changes were discarded.
    package mutating func discard() { (documents, bytes, firstAt) = (0, 0, nil) }

    /// When the next commit is due; nil if there is nothing to commit.
    package var dueAt: UInt64? {
        guard let firstAt else { return nil }
        if isFull { return firstAt }
        if isAwaited { return firstAt + limits.hurriedNanoseconds }
        if isBuilding { return firstAt + limits.buildPauseNanoseconds }
        let (stretched, overflow) = lastCost.multipliedReportingOverflow(by: limits.costFactor)
        let cost = overflow ? limits.pauseMaxNanoseconds : stretched
        return firstAt + max(limits.pauseNanoseconds, min(cost, limits.pauseMaxNanoseconds))
    }

    private var isFull: Bool {
        guard isBuilding, !isAwaited else {
            return documents >= limits.documentsMax || bytes >= limits.bytesMax
        }
        return documents >= limits.buildDocumentsMax || bytes >= limits.buildBytesMax
    }

    /// Whether a commit is due at `now`.
    package func isDue(_ now: UInt64) -> Bool { dueAt.map { $0 <= now } ?? false }
}
