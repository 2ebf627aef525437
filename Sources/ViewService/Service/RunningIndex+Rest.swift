internal import Bytes
internal import Indexing
internal import Seams

/// An index without work rests: its file and its feeds are closed, as `RestRule` decides. A change of its
/// bucket, a query or a changed plan opens it again.
///
/// - Before the index is closed, its bucket is watched, and it has every change: none is missed.
/// - An index that a query was given since the last check is not closed.
extension RunningIndex {
    /// The state of the index's rests.
    struct Rest {
        /// Whether the file is closed only because there was nothing to do.
        var isResting = false
        /// Whether the index was given to a caller since the last check.
        var isUsed = false
        /// The report on the index while it rests.
        var report: IndexReport?
        /// The errors of its function; they concern its documents, and are not in the file.
        var health: ViewIndex.Health?
        var rule: RestRule
    }

    /// Whether the index rests, or is being opened after a rest.
    var isResting: Bool { state.withLock { $0.rest.isResting } }

    /// The index for a query or for other work; nil while its file is not open.
    ///
    /// An index at rest is being opened when this returns.
    func openIndex() -> ViewIndex? {
        let (index, isResting) = state.withLock { state in
            state.rest.isUsed = true
            return (state.index, state.rest.isResting)
        }
        if index == nil, isResting { wake() }
        return index
    }

    /// Calls `body` with the index; if it rests, on its lane when it is open.
    ///
    /// - Returns: False if its file cannot be used now.
    func use(_ body: @escaping @Sendable (ViewIndex) -> Void) -> Bool {
        let (open, isResting) = state.withLock { state in
            state.rest.isUsed = true
            return (state.index, state.rest.isResting)
        }
        if let open { body(open) }
        guard open == nil, isResting else { return open != nil }
        wake()
        lane.post { [self] in
            if let index { body(index) }
        }
        return true
    }

    /// Opens the index if it rests; from any thread.
    func wake() {
        lane.post { [self] in
            if isResting { open() }
        }
    }

    /// Checks whether the open index is to rest; on its lane, once a second.
    func checkRest(isQuiet: Bool) {
        guard let index else { return }
        let (now, openIndexes) = (now, dependencies.resting.openCount)
        let isDue = state.withLock { state in
            let wasUsed = state.rest.isUsed
            state.rest.isUsed = false
            return state.rest.rule.check(
                isQuiet: isQuiet && !wasUsed,
                openIndexes: openIndexes,
                now: now
            )
        }
        if isDue { rest(index) }
    }

    private func rest(_ index: ViewIndex) {
        // Before the watch, which costs more, and again behind its begin.
        guard index.hasEveryChange else { return }
        let served = state.withLock { $0.wanted.served }
        let resting = dependencies.resting
        guard resting.add(name, served: served, wake: { [weak self] in self?.wake() }) else {
            return
        }
        guard index.hasEveryChange else { return resting.remove(name) }
        var report = report(of: index)
        // The write-ahead log is copied, and there are no connections.
        (report.memoryBytes, report.diskBytes) = (0, report.fileBytes)
        let (now, health, openIndexes) = (now, index.health, resting.openCount)
        let isClosed = state.withLock { state in
            guard !state.rest.isUsed, !state.isStopped, state.wanted.served == served else {
                return false
            }
            state.index = nil
            state.rest.isResting = true
            state.rest.report = report
            state.rest.health = health
            state.rest.rule.closed(openIndexes: openIndexes, now: now)
            return true
        }
        guard isClosed else { return resting.remove(name) }
        resting.countClosed()
        index.stop()
        // Runs after the file is closed.
        lane.post { resting.countFreed() }
    }

    private var now: UInt64 { dependencies.environment.time.monotonicNanoseconds() }
}
