internal import Orchestration
internal import Vocabulary

/// Active copies that have nothing, or may come back with nothing, while what was in them is with a
/// node that is about to be failed over.
extension Orchestrator {
    /// Has nobody serve what would be left with such a copy alone, before all of its chain were asked.
    ///
    /// The chain that would go on has one copy less: by itself that copy serves at once, as nobody
    /// else can be asked, and with nothing. So it is put into the map, before the failover, as what
    /// comes back with its nodes is: whoever has most is chosen once he is heard, and what a node
    /// that was failed over has is waited for until that is taken back, says that it has nothing, or
    /// leaves for good.
    ///
    /// - Parameters:
    ///   - empty: Nobody was found for these but the nodes.
    ///   - name: The bucket's.
    ///   - nodes: Who is failed over next.
    /// - Returns: Whether it was agreed on for all of them, as far as is known here.
    func leaveUndecided(
        _ empty: Set<VBucketID>,
        ofBucket name: String,
        without nodes: [NodeNumber]
    ) async -> Bool {
        // What changed while it was asked for is looked at once more.
        for _ in 0..<2 {
            let steps = await undecided(empty, ofBucket: name, without: nodes)
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

    private func undecided(
        _ empty: Set<VBucketID>,
        ofBucket name: String,
        without nodes: [NodeNumber]
    ) async -> [VBucketSteps.Step] {
        guard let before = state.bucket(named: name) else { return [] }
        let isInMemory = before.settings.type == .ephemeral
        let alone = isInMemory ? Set(leftAlone(in: before, without: nodes).values) : []
        // A beat tells of a node, not of a copy: others of it may be on their way just now.
        let asked = alone.subtracting(deadNodes()).sorted()
        let reports = await copies(of: before).reports(from: asked)
        guard let bucket = state.bucket(named: name) else { return [] }
        // Who died while slower ones answered, too: its answer is of before.
        let dead = deadNodes()
        let left = leftAlone(in: bucket, without: nodes)
        return bucket.placements.enumerated().compactMap { number, placement in
            let vBucket = VBucketID(UInt16(number))
            guard isExposed(placement, to: nodes) else { return nil }
            // Whoever does not answer may just be started anew, which memory does not outlive.
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

    /// Active copies that nobody else could be asked instead of, once `nodes` are gone.
    private func leftAlone(
        in bucket: BucketRecord,
        without nodes: [NodeNumber]
    ) -> [VBucketID: NodeNumber] {
        let gone = nodes + failedOver
        var found: [VBucketID: NodeNumber] = [:]
        for (number, placement) in bucket.placements.enumerated()
        where isExposed(placement, to: nodes) && placement.chain.without(gone).count == 1 {
            found[VBucketID(UInt16(number))] = placement.chain.first
        }
        return found
    }

    /// Somebody serves it who stays, and one of `nodes` has a copy.
    private func isExposed(_ placement: VBucketPlacement, to nodes: [NodeNumber]) -> Bool {
        guard placement.isConfirmed, let active = placement.chain.first else { return false }
        return !nodes.contains(active) && !failedOver.contains(active)
            && placement.chain.contains(where: nodes.contains)
    }
}
