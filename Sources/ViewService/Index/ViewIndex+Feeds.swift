internal import Bytes
package import Indexing
internal import Seams
internal import Vocabulary

/// Opening feeds, and reading when they are woken.
extension ViewIndex {
    func open(_ vBucket: VBucketID, _ position: IndexPosition) {
        // Most wakes need no post, and so no reference to the index.
        let ready = ready
        let opening = dependencies.changes.openFeed(
            of: vBucket,
            ofBucket: bucket,
            at: position,
            wake: { [weak self] in
                guard let posting = ready.withLock({ $0.wake(vBucket) }) else { return }
                self?.post(posting)
            }
        )
        switch opening {
        case .opened(let feed, let high, let uuid):
            var position = position
            position.uuid = uuid
            sources.feedNumbers += 1
            sources.feeds[vBucket] = Feed(
                feed: feed,
                read: ReadPosition(position),
                number: sources.feedNumbers
            )
            perform(progress.table.opened(vBucket, .opened(high: high, uuid: uuid)))
            // The copy may have nothing new, so that no commit follows.
            endWaits([vBucket])
            wake(vBucket)
            startTicking()
        case .rollBack: perform(progress.table.opened(vBucket, .rollBack))
        case .unavailable: perform(progress.table.opened(vBucket, .unavailable))
        }
    }

    /// Closes the feed, and discards what was read of it and is not kept.
    func closeFeed(of vBucket: VBucketID) {
        sources.feeds.removeValue(forKey: vBucket)?.feed.close()
        guard isCollecting else { return }
        progress.load?.runs.discard(vBucket)
        progress.table.loaded(vBucket, through: .zero)
    }

    /// A feed may have records.
    func wake(_ vBucket: VBucketID) {
        if let posting = ready.withLock({ $0.wake(vBucket) }) { post(posting) }
    }

    /// Posts a read; called from any thread.
    private func post(_ posting: ReadyFeeds.Posting) {
        switch posting {
        case .atOnce: dependencies.lane.post { [weak self] in self?.readPosted(posting) }
        case .afterPause:
            dependencies.lane.post(after: ReadyFeeds.pauseNanoseconds) { [weak self] in
                self?.readPosted(posting)
            }
        }
    }

    private func readPosted(_ posting: ReadyFeeds.Posting) {
        // Before the feeds are read: what wakes from now on may come too late for this read.
        if ready.withLock({ $0.readBegins(posting) }) { post(.afterPause) }
        advance()
    }
}

/// Work of an index in steps, which the lane does one at a time between other work.
enum SteppedWork: CaseIterable {
    case compaction
    case slots
    case load
}

extension ViewIndex {
    /// Posts the next step to the lane, unless one is posted.
    func post(_ work: SteppedWork, after nanoseconds: UInt64 = 0) {
        guard has(work), alarm.posted.insert(work).inserted else { return }
        dependencies.lane.post(after: nanoseconds) { [weak self] in self?.step(work) }
    }

    private func has(_ work: SteppedWork) -> Bool {
        switch work {
        case .compaction: progress.compaction != nil
        case .slots: true
        case .load: progress.load?.merge != nil
        }
    }

    private func step(_ work: SteppedWork) {
        alarm.posted.remove(work)
        guard !health.isStopped, health.failure == nil else { return }
        // The end of the checkpoint posts the next step.
        guard !alarm.checkpoints.holdsCommits else { return }
        let now = now
        guard now >= alarm.pausedUntil else { return post(work, after: alarm.pausedUntil - now) }
        switch work {
        case .compaction: stepCompaction()
        case .slots: stepSlots()
        case .load: stepLoad()
        }
    }
}

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
