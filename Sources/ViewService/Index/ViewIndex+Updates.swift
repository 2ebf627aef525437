internal import Bytes
package import Indexing
internal import Seams
internal import Vocabulary

/// Whether changes are read now: an index waits for its turn to be built, and may update in steps.
extension ViewIndex {
    /// The schedule, the build and the activity that decide whether changes are read.
    struct Reads {
        var schedule = UpdateSchedule()
        /// Nil unless the index is being built for the first time.
        var build: IndexBuilds.Build?
        /// Whether anything was read since the last tick.
        var isActive = false
    }

    /// Sets when changes are read.
    ///
    /// Any thread; returns at once.
    package func setSchedule(_ terms: UpdateSchedule.Terms) {
        dependencies.lane.post { [self] in
            guard !health.isStopped else { return }
            sources.reads.schedule.set(terms, now: now)
            shared.withLock { $0.updatesInSteps = !terms.isContinuous }
            advance()
        }
    }

    /// Has the index read the changes that wait, if it does not read them anyway.
    ///
    /// Any thread; returns at once.
    func requestUpdate() {
        guard shared.withLock({ $0.updatesInSteps }) else { return }
        dependencies.lane.post { [self] in
            sources.reads.schedule.request()
            advance()
        }
    }

    /// Whether changes are read now.
    ///
    /// The first build of an index waits until few enough indexes are built.
    func mayRead() -> Bool {
        let isFilling = !progress.table.isReady
        // During a bulk load, no vBucket is counted.
        guard isFilling, isCollecting || !progress.table.countsAny else {
            sources.reads.build = nil
            return sources.reads.schedule.reads(isNeeded: isFilling || progress.trigger.isAwaited)
        }
        // An index without readable documents must not keep others from being built.
        guard !ready.withLock({ $0.isEmpty }) || sources.reads.build != nil, !sources.feeds.isEmpty
        else {
            sources.reads.build = nil
            return false
        }
        let build = sources.reads.build ?? enterBuild()
        sources.reads.build = build
        return build.hasBegun
    }

    private func enterBuild() -> IndexBuilds.Build {
        let lane = dependencies.lane
        return dependencies.builds.enter { [weak self] in
            lane.post { [weak self] in self?.advance() }
        }
    }

    /// Whether the index waits until another one is built.
    var awaitsBuild: Bool { sources.reads.build.map { !$0.hasBegun } ?? false }

    /// Begins or ends an update, and lets another index be built if this one has nothing to read.
    func checkReads() {
        if !sources.reads.isActive, !awaitsBuild { sources.reads.build = nil }
        sources.reads.isActive = pending.queue.count > 0
        guard !sources.reads.schedule.terms.isContinuous else { return }
        if sources.reads.schedule.check(waiting: waitingChanges, now: now) { advance() }
    }

    /// The visible changes that the index does not have.
    private var waitingChanges: UInt64 {
        let served = Array(progress.served)
        let highs = dependencies.changes.highVisible(of: served, ofBucket: bucket)
        return highs.reduce(0) { sum, high in
            let has = progress.table.position(of: high.key).seqno.value
            let awaited = high.value.seqno.value
            return sum &+ (awaited - min(has, awaited))
        }
    }
}
