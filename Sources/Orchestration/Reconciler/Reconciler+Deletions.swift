internal import Vocabulary

/// Buckets that are deleted or flushed, until every node has done it.
extension Reconciler {
    /// Longer than the requester's timeout, so that the requester does not report a deletion as
    /// done that ended by this timeout alone.
    private static let deletionTimeoutNanoseconds: UInt64 = 35_000_000_000

    /// Forgets deleted buckets, and frees their names, once no node serves them.
    ///
    /// Each node deletes its own files.
    ///
    /// A node that does not answer the leader may have a lease as long as a majority receives its
    /// beats. So the timeout counts only for nodes that a majority has not heard of; for others the
    /// name stays reserved.
    mutating func finishDeletions(_ view: LeaderView) {
        let gone = view.state.deletedBuckets
        waits.deletions = waits.deletions.filter { gone.contains($0.key) }
        for bucket in gone {
            let seen = waits.deletions[bucket] ?? (index: view.state.index, at: view.now)
            waits.deletions[bucket] = seen
            let isTimeoutOver = view.now - seen.at > Self.deletionTimeoutNanoseconds
            let isOver = view.state.activeNodes.allSatisfy { node in
                node.number == view.node
                    || (view.beats.actsAsOf[node.number] ?? 0) >= seen.index
                    || isTimeoutOver && isUnheard(node.number, view)
            }
            guard isOver else { continue }
            let step = BucketStep(name: bucket.name, uuid: bucket.uuid, phase: .end)
            propose(.deleteBucket(step), as: .deletion(bucket))
        }
    }

    /// Whether most voters have received no beat of a node for much longer than a promise lasts:
    /// then it has no lease.
    private func isUnheard(_ node: NodeNumber, _ view: LeaderView) -> Bool {
        guard !view.log.isJoint else { return false }
        let seers = view.beats.table.seers(
            of: node,
            silentFor: .init(silentNanoseconds: Self.deletionTimeoutNanoseconds),
            among: view.log.voters,
            now: view.now
        )
        return seers.count > view.log.voters.count / 2
    }

    /// Ends each flush once every active copy is empty under the flush's fence.
    ///
    /// A vBucket of which only failed-over nodes have data is served once such a node is recovered
    /// or removed, and the rebalance for that begins only after the flush. So the flush does not
    /// wait for it, if every node that may serve it knows of the flush.
    mutating func finishFlushes(_ view: LeaderView) {
        for bucket in view.state.buckets {
            let job = Job.flush(bucket.settings.name)
            guard let flush = bucket.flush, begin(job) else { continue }
            let active = Set(bucket.placements.compactMap(\.chain.first)).sorted()
            askReports(of: bucket, from: active, view) { reconciler, reports, view in
                guard reconciler.isDone(flush, of: bucket, by: reports, view) else {
                    return reconciler.end(job)
                }
                let (name, uuid) = (bucket.settings.name, bucket.settings.uuid)
                let step = BucketStep(name: name, uuid: uuid, phase: .end, flush: flush)
                reconciler.propose(.flushBucket(step)) { reconciler, _, _ in reconciler.end(job) }
            }
        }
    }

    private mutating func isDone(
        _ flush: UInt64,
        of bucket: BucketRecord,
        by reports: CopyReports,
        _ view: LeaderView
    ) -> Bool {
        let abandoned = Set(
            waits.abandonments.obstacles(in: bucket, view).filter(\.isAbandoned).map(\.vBucket)
        )
        return bucket.numberedPlacements.allSatisfy { vBucket, placement in
            guard let node = placement.chain.first else { return true }
            let report = reports[node]?[vBucket]
            let isServed = report.map { $0.fence >= placement.fence && $0.state == .active }
            return isServed ?? false
                || abandoned.contains(vBucket)
                    && placement.mayServe.allSatisfy { mayServe($0, onlyAsOf: flush, view) }
        }
    }

    /// Whether a node can serve only by the entry at `index` or a later one: its copies act by it,
    /// or a later entry deposed the node.
    private func mayServe(_ node: NodeNumber, onlyAsOf index: UInt64, _ view: LeaderView) -> Bool {
        // The voters promise a deposed node no lease until its copies act by that entry.
        node == view.node || (view.beats.actsAsOf[node] ?? 0) >= index
            || view.state.node(number: node).map { $0.fencedAt > index } ?? true
    }
}
