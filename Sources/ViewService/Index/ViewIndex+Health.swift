internal import Bytes
internal import Indexing
internal import Persistence
internal import ScriptProcesses
package import Scripting
internal import Seams

/// The errors and the status of an index, and the timer that ends stalled feeds.
extension ViewIndex {
    /// The interval at which feeds that stand still are ended.
    private static let tickNanoseconds: UInt64 = 1_000_000_000

    /// How far an index is, and what went wrong.
    package struct Status: Sendable {
        /// Rows in the file, also those that are being removed.
        package var rows: UInt64 = 0
        /// The share of the changes that the index has: 0 to 1.
        package var progress = 0.0
        /// The changes that the index has, and all that it must have to be complete.
        package var changesDone: UInt64 = 0
        package var changesTotal: UInt64 = 0
        /// Whether queries count every vBucket that this node serves.
        package var isComplete = false
        package var errors = ScriptErrors()
        package var isCompacting = false
        /// Whether its build waits until another index is built.
        package var awaitsBuild = false
        /// The entries that a compaction has copied, and all; both 0 without one.
        package var copied: UInt64 = 0
        package var toCopy: UInt64 = 0

        package init() {}
    }

    /// For clients; the log has the error.
    static let unusable = "The index cannot be used. The log of its node states the error."

    /// Why the index gets no further changes, a sentence; nil if it does.
    ///
    /// From any thread.
    ///
    /// The file has failed, or the function was stopped because it runs away.
    package var fault: String? { shared.withLock { $0.fault } }

    /// Passes the errors of the index's function to `done`, on the index's lane.
    package func report(_ done: @escaping @Sendable (ScriptErrors) -> Void) {
        dependencies.lane.post { [self] in done(health.errors) }
    }

    /// The status; on the index's lane.
    var status: Status {
        var status = Status()
        status.progress = progress.table.progress
        (status.changesDone, status.changesTotal) = progress.table.changes
        status.isComplete = progress.table.isReady
        status.errors = health.errors
        status.isCompacting = progress.compaction.map { !$0.removesRuns } ?? false
        // A file that has failed has no rows for queries either.
        status.awaitsBuild = awaitsBuild
        guard let head = try? file.head() else { return status }
        status.rows = head.main.rows
        if let compaction = progress.compaction, !compaction.removesRuns {
            status.toCopy = head.main.rows + head.back.rows
            status.copied = min(compaction.copied, status.toCopy)
        }
        return status
    }

    // MARK: Errors

    /// Counts an error of a document for the author.
    func record(_ kind: ScriptErrors.Kind, _ id: ByteView, line: UInt32, text: String) {
        health.errors.record(ScriptErrors.Entry(kind, id: id.text, line: line, text: text))
    }

    /// Notes a document whose rows cannot be stored; it is counted when the commit has succeeded.
    func refuse(_ id: ByteView, _ text: String) {
        pending.refused.append(ScriptErrors.Entry(.keyTooLong, id: id.text, line: 0, text: text))
    }

    func countRefused() {
        for entry in pending.refused { health.errors.record(entry) }
        pending.refused = []
    }

    /// The function is not called any more, so no wait for a change can succeed.
    func runAway(_ cause: RunawayRule.Cause) {
        dependencies.environment.trace.error("views", "Index \(name): \(cause.description)")
        shared.withLock { $0.fault = cause.description }
        dependencies.scripts.forget(function)
        sources.reads.build = nil
        endAllWaits()
    }

    /// The index is of no use until its file is opened again or made anew.
    func fail(_ error: StorageError) {
        guard health.failure == nil else { return }
        health.failure = error.description
        shared.withLock { $0.fault = ViewIndex.unusable }
        dependencies.environment.trace.error("views", "Index \(name): \(error.description)")
        for feed in sources.feeds.values { feed.feed.close() }
        sources.feeds = [:]
        sources.reads.build = nil
        endAllWaits()
        dependencies.failed(error)
    }

    /// A query has found that the file is useless.
    ///
    /// Any thread.
    func readFailed(_ error: StorageError) {
        dependencies.lane.post { [self] in
            guard !health.isStopped else { return }
            fail(error)
        }
    }

    func endAllWaits() {
        let waiting = progress.waiting
        progress.waiting = [:]
        progress.waiters = FreshnessWaiters()
        for (_, wait) in waiting { wait.done(.ended) }
    }

    // MARK: Time

    /// Calls `tick` regularly as long as the index is open.
    func startTicking() {
        guard !alarm.isTicking else { return }
        alarm.isTicking = true
        dependencies.lane.post(after: ViewIndex.tickNanoseconds) { [weak self] in self?.tick() }
    }

    private func tick() {
        alarm.isTicking = false
        guard !health.isStopped, health.failure == nil else { return }
        // An index that has nothing to do has no scan, and may have feeds of 1024 vBuckets.
        let isQuiet = isQuiet
        if !isQuiet {
            for (vBucket, feed) in sources.feeds where feed.feed.endIfStalled() { wake(vBucket) }
        }
        reportErrors()
        startTicking()
        // Before the marks of the last second are cleared.
        dependencies.ticked(isQuiet)
        guard !health.isStopped else { return }
        checkReads()
    }

    /// Logs how many errors of each kind there were, once a minute; their texts are for the author.
    private func reportErrors() {
        guard let new = health.errors.report(now: now) else { return }
        let counts = new.sorted { $0.key.rawValue < $1.key.rawValue }
            .map { "\($0.value) \($0.key.rawValue)" }.joined(separator: ", ")
        dependencies.environment.trace.warning(
            "views",
            "Index \(name) omits documents whose map function failed: \(counts)"
        )
    }
}
