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
    /// - Returns: Whether it was agreed on, as far as is known here.
    func leaveUndecided(
        _ empty: Set<VBucketID>,
        ofBucket name: String,
        without nodes: [NodeNumber]
    ) async -> Bool {
        guard let bucket = state.bucket(named: name) else { return true }
        let (failedOver, dead) = (failedOver, deadNodes())
        let isInMemory = bucket.settings.type == .ephemeral
        var steps: [VBucketSteps.Step] = []
        for (number, placement) in bucket.placements.enumerated() where placement.isConfirmed {
            let vBucket = VBucketID(UInt16(number))
            guard let active = placement.chain.first, !nodes.contains(active),
                !failedOver.contains(active), placement.chain.contains(where: nodes.contains),
                // Whoever is not heard may just be started anew, which memory does not outlive; who
                // was just now says that something is not ready.
                empty.contains(vBucket)
                    || isInMemory && (dead.contains(active) || member.isUnready(active))
            else { continue }
            steps.append(
                .init(
                    vBucket,
                    from: placement,
                    row: placement.chain,
                    position: VBucketPlacement.unknown
                )
            )
        }
        if steps.isEmpty { return true }
        let outcome = await propose(.promote(VBucketSteps(bucket: name, steps: steps)))
        guard case .applied(let effects) = outcome else { return outcome == .repeated }
        // Of one that changed meanwhile nobody knows whether it would serve with nothing.
        return !effects.contains { effect in
            if case .leftOut = effect { true } else { false }
        }
    }
}
