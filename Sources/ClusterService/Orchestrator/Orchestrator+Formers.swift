internal import Orchestration
internal import Seams
internal import Vocabulary

/// Former owners that a rebalance left behind, because it ended before their successors' disks had
/// everything.
extension Orchestrator {
    /// Lets a former owner drop its copy as soon as the successor has on disk what it had in memory
    /// when it was first asked: that is all that was handed over, and more.
    func releaseFormers() async {
        guard state.rebalance == nil else { return }
        for bucket in state.buckets {
            let name = bucket.settings.name
            let kept = bucket.placements.enumerated().compactMap { number, placement in
                placement.former != nil && placement.isConfirmed && !placement.isJoint
                    ? VBucketID(UInt16(number)) : nil
            }
            guard !kept.isEmpty else {
                formersWaitFor[name] = nil
                continue
            }
            let owners = Set(kept.compactMap { bucket[$0].chain.first }).sorted()
            let reports = await copies(of: bucket).reports(from: owners)
            guard state.rebalance == nil, let bucket = state.bucket(named: name) else { return }
            var steps: [VBucketSteps.Step] = []
            for vBucket in kept {
                let placement = bucket[vBucket]
                guard placement.former != nil, let owner = placement.chain.first,
                    let report = reports[owner]?[vBucket], report.state == .active,
                    report.fence == placement.fence
                else { continue }
                let known = formersWaitFor[name]?[vBucket]
                let due = known.flatMap { $0.fence == report.fence ? $0.high : nil } ?? report.high
                formersWaitFor[name, default: [:]][vBucket] = (report.fence, due)
                guard report.persisted >= due else { continue }
                steps.append(VBucketSteps.Step(vBucket, from: placement))
            }
            guard !steps.isEmpty else { continue }
            await propose(.release(VBucketSteps(bucket: name, steps: steps)))
        }
    }
}
