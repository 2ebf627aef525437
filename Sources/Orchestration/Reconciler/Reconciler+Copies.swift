internal import Vocabulary

/// Copies without a task: vBuckets whose active copy does not serve or is on a failed-over node get another one,
/// and former owners drop their copies once the new owner's disk has everything.
extension Reconciler {
    /// The longest time between a seal and its promotion: a leader waits for the slowest answer.
    private static let sealTimeoutNanoseconds = CopyQuestion.timeoutNanoseconds + 1_000_000_000

    /// Chooses new active copies for vBuckets whose active copy does not serve, as after a restart
    /// that lost its memory.
    ///
    /// Beats report whether all copies of a node are ready; only nodes that are not ready are
    /// asked.
    mutating func replaceUnservedCopies(
        ofBucket name: String,
        _ view: LeaderView,
        then: @escaping Continuation
    ) {
        guard let bucket = view.state.bucket(named: name) else { return then(&self, view) }
        let unready = view.unreadyNodes
        guard !unready.isEmpty || !view.vBucketsOnFailedOverNodes(in: bucket).isEmpty else {
            waits.sealedSince[name] = nil
            return then(&self, view)
        }
        let due = (waits.unservedAskedAt[name] ?? 0) + Self.askingPauseNanoseconds
        guard view.now >= due else { return then(&self, view) }
        waits.unservedAskedAt[name] = view.now
        askReports(of: bucket, from: unready, view) { reconciler, reports, view in
            guard let bucket = view.state.bucket(named: name) else {
                return then(&reconciler, view)
            }
            let sealed = reconciler.sealedForNothing(in: bucket, reports, view)
            reconciler.resume(sealed, ofBucket: name, view) { reconciler, _, view in
                // The resume may have ended a move in its second chain, which has no choice yet.
                guard let bucket = view.state.bucket(named: name) else {
                    return then(&reconciler, view)
                }
                let unserved = Set(
                    reconciler.unservedVBuckets(in: bucket, reports)
                        + view.vBucketsOnFailedOverNodes(in: bucket)
                )
                reconciler.promoteSafely(unserved.sorted(), ofBucket: name, view, then: then)
            }
        }
    }

    private func unservedVBuckets(in bucket: BucketRecord, _ reports: CopyReports) -> [VBucketID] {
        let handedOver = rebalance.handedOver(ofBucket: bucket.settings.name)
        return bucket.numberedPlacements.compactMap { vBucket, placement in
            guard placement.isConfirmed, let node = placement.chain.first,
                let report = reports[node]?[vBucket], report.fence == placement.fence,
                report.state != .active, !handedOver.contains(vBucket)
            else { return nil }
            return vBucket
        }
    }

    /// vBuckets with a serving active copy of which other copies are sealed.
    ///
    /// The sealing leader failed, or its choice came too late, or a copy restored its seal after a
    /// restart: a new fence ends the seal.
    private mutating func sealedForNothing(
        in bucket: BucketRecord,
        _ reports: CopyReports,
        _ view: LeaderView
    ) -> [VBucketID] {
        let (now, name) = (view.now, bucket.settings.name)
        let before = waits.sealedSince[name] ?? [:]
        var since: [VBucketID: UInt64] = [:]
        for (vBucket, placement) in bucket.numberedPlacements where placement.isConfirmed {
            let isSealed = reports.values.contains { reports in
                guard let report = reports[vBucket], report.fence == placement.fence else {
                    return false
                }
                return report.isSealed && report.state == .replica
            }
            if isSealed { since[vBucket] = before[vBucket] ?? now }
        }
        waits.sealedSince[name] = since
        return since.filter { now - $0.value >= Self.sealTimeoutNanoseconds }.map(\.key).sorted()
    }

    /// Continues with the vBuckets that have no serving copy, or an active copy on a failed-over node, and whose
    /// promotion must ask one of `nodes`, sorted by number.
    mutating func findWaiting(
        for nodes: [NodeNumber],
        in bucket: BucketRecord,
        _ view: LeaderView,
        then: @escaping @Sendable (inout Reconciler, [VBucketID], LeaderView) -> Void
    ) {
        let unready = view.unreadyNodes.filter { !nodes.contains($0) }
        askReports(of: bucket, from: unready, view) { reconciler, reports, view in
            let waiting = reconciler.waiting(in: bucket, reports, view)
            let held = view.questions(waiting, of: bucket)
                .filter { question in question.asked.contains(where: nodes.contains) }
            then(&reconciler, held.map(\.vBucket), view)
        }
    }

    /// The same, regardless of the nodes that must be asked.
    func waiting(
        in bucket: BucketRecord,
        _ reports: CopyReports,
        _ view: LeaderView
    ) -> [VBucketID] {
        let failedOver = view.failedOver
        let invalid: [VBucketID] = bucket.numberedPlacements.compactMap { vBucket, placement in
            guard !placement.isConfirmed, let chosen = placement.chain.first else { return nil }
            // The chosen node was failed over since, or its copy lost changes in a crash.
            let position = reports[chosen]?[vBucket]?.position
            let isLess = position.flatMap { here in placement.expected.map { here < $0 } } ?? false
            return failedOver.contains(chosen) || isLess ? vBucket : nil
        }
        return Set(
            unservedVBuckets(in: bucket, reports) + view.vBucketsOnFailedOverNodes(in: bucket)
                + invalid
        ).sorted()
    }

    // MARK: Former owners

    /// Has a former owner drop its copy once the new owner has persisted the high seqno of its
    /// first report: that seqno includes every change that was handed over.
    mutating func releaseFormers(
        ofBucket name: String,
        _ view: LeaderView,
        then: @escaping Continuation
    ) {
        guard let bucket = view.state.bucket(named: name) else { return then(&self, view) }
        let failedOver = view.failedOver
        let kept = bucket.numberedPlacements.compactMap { vBucket, placement in
            // If the new owner was failed over, the former owner's copy is still needed.
            let isKept = placement.chain.first.map { !failedOver.contains($0) } ?? false
            return isKept && placement.former != nil && placement.isConfirmed && !placement.isJoint
                ? vBucket : nil
        }
        guard !kept.isEmpty else {
            waits.formersWaitFor[name] = nil
            return then(&self, view)
        }
        let owners = Set(kept.compactMap { bucket[$0].chain.first }).sorted()
        askReports(of: bucket, from: owners, view) { reconciler, reports, view in
            guard let bucket = view.state.bucket(named: name) else {
                return then(&reconciler, view)
            }
            let steps = reconciler.releases(kept, of: bucket, reports)
            guard !steps.isEmpty else { return then(&reconciler, view) }
            reconciler.propose(.release(VBucketSteps(bucket: name, steps: steps))) {
                reconciler,
                _,
                view in
                then(&reconciler, view)
            }
        }
    }

    private mutating func releases(
        _ kept: [VBucketID],
        of bucket: BucketRecord,
        _ reports: CopyReports
    ) -> [VBucketSteps.Step] {
        let name = bucket.settings.name
        var steps: [VBucketSteps.Step] = []
        for vBucket in kept {
            let placement = bucket[vBucket]
            guard placement.former != nil, !placement.isJoint, let owner = placement.chain.first,
                let report = reports[owner]?[vBucket], report.state == .active,
                report.fence == placement.fence
            else { continue }
            let known = waits.formersWaitFor[name]?[vBucket]
            let due = known.flatMap { $0.fence == report.fence ? $0.high : nil } ?? report.high
            waits.formersWaitFor[name, default: [:]][vBucket] = (report.fence, due)
            guard report.persisted >= due else { continue }
            steps.append(VBucketSteps.Step(vBucket, from: placement))
        }
        return steps
    }
}

extension LeaderView {
    /// vBuckets whose active copy is on a failed-over node.
    ///
    /// At the failover no other node with the vBucket could be asked; such a node replaces the
    /// active copy as soon as it answers.
    fileprivate func vBucketsOnFailedOverNodes(in bucket: BucketRecord) -> [VBucketID] {
        let failedOver = failedOver
        guard !failedOver.isEmpty else { return [] }
        return bucket.numberedPlacements.compactMap { vBucket, placement in
            let isStranded = placement.chain.first.map { failedOver.contains($0) } ?? false
            return placement.isConfirmed && isStranded ? vBucket : nil
        }
    }
}
