internal import Vocabulary

/// A new beginning with what is left: the operator's word in place of a majority's.
///
/// Never agreed on by a group, but the first entry of another one: whoever forms it applies it to the
/// log that it found, and the outcome is the new group's first snapshot.
extension ClusterState {
    /// Leaves everybody behind who is not a survivor.
    ///
    /// vBuckets that only those had are without a copy from here on. Others whose active copy is gone
    /// keep their chain: whom of it to promote, copies have to be asked first.
    mutating func begin(_ epoch: NewEpoch) -> ClusterOutcome {
        guard isProvisioned else { return .refused(.notInitialised) }
        guard epoch.survivors.allSatisfy({ node(number: $0) != nil }) else {
            return .refused(.nodeUnknown)
        }
        guard activeNodes.contains(where: { epoch.survivors.contains($0.number) }) else {
            return .refused(.lastActiveNode)
        }
        for place in nodes.indices where !epoch.survivors.contains(nodes[place].number) {
            nodes[place].membership = .leftBehind
            nodes[place].recovery = .none
            nodes[place].fencedAt = index
        }
        var effects = [ClusterEffect.epochChanged, .nodesChanged]
        // What stands between two chains goes back to the one of which somebody is left.
        if let rebalance {
            let outcome = RebalanceOutcome(
                id: rebalance.id,
                verdict: .failed,
                sentence: "A majority of the cluster's nodes was lost.",
                endedMilliseconds: epoch.beganMilliseconds
            )
            effects += end(outcome).effects
        }
        revEpoch += 1
        counters.count(.quorumFailover)
        pastGroups.append(epoch.formerGroupID)
        groupID = epoch.groupID
        nodesMoved()
        // What those have who were failed over before is given up as well.
        let gone = gone
        for place in buckets.indices {
            effects += release(leftBehind, ofBucketAt: place)
            effects += lose(gone, ofBucketAt: place)
            effects += part(from: leftBehind, ofBucketAt: place)
        }
        return .applied(effects)
    }

    /// What is with a node that was failed over before stays with it, without those that are gone for
    /// good: nobody would ever take them out of its row, and out of the cluster.
    private mutating func part(
        from gone: [NodeNumber],
        ofBucketAt place: Int
    ) -> [ClusterEffect] {
        var changed: [VBucketID] = []
        for number in buckets[place].placements.indices
        where buckets[place].placements[number].part(from: gone, at: index) {
            changed.append(VBucketID(UInt16(number)))
        }
        guard !changed.isEmpty else { return [] }
        buckets[place].rev = index
        return [.assignmentsChanged(bucket: buckets[place].settings.name, changed)]
    }

    /// A former active node that is gone has nothing to keep for anybody.
    private mutating func release(
        _ gone: [NodeNumber],
        ofBucketAt place: Int
    ) -> [ClusterEffect] {
        var changed: [VBucketID] = []
        for number in buckets[place].placements.indices {
            guard let former = buckets[place].placements[number].former, gone.contains(former),
                buckets[place].placements[number].release()
            else { continue }
            changed.append(VBucketID(UInt16(number)))
        }
        guard !changed.isEmpty else { return [] }
        return [.assignmentsChanged(bucket: buckets[place].settings.name, changed)]
    }
}
