internal import Orchestration
internal import Vocabulary

/// Active copies that are empty, or may restart empty, while their changes are on a node that is
/// about to be failed over.
extension Orchestrator {
    /// Reopens the promotion of vBuckets whose only remaining copy may be empty, before the
    /// failover.
    ///
    /// The failover shortens the chain to that copy, which would then serve at once, empty, since
    /// no other copy is left to ask. So the vBucket is recorded as without a decision, as after a
    /// restart: the copy with the most changes is chosen once its node answers. A failed-over
    /// node's copy is waited for until the node is recovered, reports that it has nothing, or is
    /// removed for good.
    ///
    /// - Parameters:
    ///   - empty: vBuckets for which only copies on `nodes` were found.
    ///   - name: The bucket's name.
    ///   - nodes: The nodes that are failed over next.
    /// - Returns: Whether it is known to be agreed on for all of them.
    func reopenPromotions(
        _ empty: Set<VBucketID>,
        ofBucket name: String,
        without nodes: [NodeNumber]
    ) async -> Bool {
        // vBuckets that changed during the proposal are checked once more.
        for _ in 0..<2 {
            let steps = await stepsToReopen(empty, ofBucket: name, without: nodes)
            if steps.isEmpty { return true }
            let outcome = await propose(.promote(VBucketSteps(bucket: name, steps: steps)))
            guard case .applied(let effects) = outcome else { return outcome == .repeated }
            let isLeftOut = effects.contains { effect in
                if case .leftOut = effect { true } else { false }
            }
            if !isLeftOut { return true }
        }
        return false
    }

    private func stepsToReopen(
        _ empty: Set<VBucketID>,
        ofBucket name: String,
        without nodes: [NodeNumber]
    ) async -> [VBucketSteps.Step] {
        guard let before = state.bucket(named: name) else { return [] }
        let isInMemory = before.settings.type == .ephemeral
        let alone = isInMemory ? Set(lastCopies(in: before, without: nodes).values) : []
        // A beat reports about its node, not about one copy, so ask for the copies.
        let asked = alone.subtracting(deadNodes()).sorted()
        let reports = await copies(of: before).reports(from: asked)
        guard let bucket = state.bucket(named: name) else { return [] }
        // Include nodes that failed while slower ones answered: their answer is out of date.
        let dead = deadNodes()
        let left = lastCopies(in: bucket, without: nodes)
        return bucket.numberedPlacements.compactMap { vBucket, placement in
            guard isExposed(placement, to: nodes) else { return nil }
            // A node that does not answer may be restarting, which loses an ephemeral bucket's
            // data.
            let mayForget = left[vBucket].map { active in
                let report = reports[active]?[vBucket]
                let isServing = report?.state == .active && report?.fence == placement.fence
                return isInMemory && (!isServing || dead.contains(active))
            }
            guard empty.contains(vBucket) || mayForget == true else { return nil }
            return .init(
                vBucket,
                from: placement,
                row: placement.chain,
                position: VBucketPlacement.unknown
            )
        }
    }

    /// Active copies that become the only one of their chain once `nodes` are failed over.
    private func lastCopies(
        in bucket: BucketRecord,
        without nodes: [NodeNumber]
    ) -> [VBucketID: NodeNumber] {
        let gone = nodes + failedOver
        var found: [VBucketID: NodeNumber] = [:]
        for (vBucket, placement) in bucket.numberedPlacements
        where isExposed(placement, to: nodes) && placement.chain.without(gone).count == 1 {
            found[vBucket] = placement.chain.first
        }
        return found
    }

    /// The active copy stays, and one of `nodes` has another copy.
    private func isExposed(_ placement: VBucketPlacement, to nodes: [NodeNumber]) -> Bool {
        guard placement.isConfirmed, let active = placement.chain.first else { return false }
        return !nodes.contains(active) && !failedOver.contains(active)
            && placement.chain.contains(where: nodes.contains)
    }
}
