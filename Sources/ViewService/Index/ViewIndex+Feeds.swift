internal import Bytes
internal import Indexing
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
