internal import Orchestration
internal import Vocabulary

/// Former owners of vBuckets after a move or a promotion: they keep their copies until the new
/// owner's disk has everything.
extension Orchestrator {
    /// Releases former owners; a running rebalance releases those of its own bucket.
    func releaseFormers() async {
        for bucket in state.buckets where state.rebalance == nil {
            await releaseFormers(ofBucket: bucket.settings.name)
        }
    }

    /// Has a former owner drop its copy once the new owner has persisted the high seqno of its
    /// first report: that seqno includes every change that was handed over.
    func releaseFormers(ofBucket name: String) async {
        guard let bucket = state.bucket(named: name) else { return }
        let failedOver = failedOver
        let kept = bucket.numberedPlacements.compactMap { vBucket, placement in
            // If the new owner was failed over, the former owner's copy is still needed.
            let isKept = placement.chain.first.map { !failedOver.contains($0) } ?? false
            return isKept && placement.former != nil && placement.isConfirmed && !placement.isJoint
                ? vBucket : nil
        }
        guard !kept.isEmpty else {
            formersWaitFor[name] = nil
            return
        }
        let owners = Set(kept.compactMap { bucket[$0].chain.first }).sorted()
        let reports = await copies(of: bucket).reports(from: owners)
        guard let bucket = state.bucket(named: name) else { return }
        var steps: [VBucketSteps.Step] = []
        for vBucket in kept {
            let placement = bucket[vBucket]
            guard placement.former != nil, !placement.isJoint, let owner = placement.chain.first,
                let report = reports[owner]?[vBucket], report.state == .active,
                report.fence == placement.fence
            else { continue }
            let known = formersWaitFor[name]?[vBucket]
            let due = known.flatMap { $0.fence == report.fence ? $0.high : nil } ?? report.high
            formersWaitFor[name, default: [:]][vBucket] = (report.fence, due)
            guard report.persisted >= due else { continue }
            steps.append(VBucketSteps.Step(vBucket, from: placement))
        }
        guard !steps.isEmpty else { return }
        await propose(.release(VBucketSteps(bucket: name, steps: steps)))
    }
}
