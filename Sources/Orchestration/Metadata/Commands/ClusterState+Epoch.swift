internal import Vocabulary

/// A new epoch: an operator's order replaces the decision of a majority ~ forced reconfiguration.
///
/// The command is not agreed on by the old group. The node that forms the new group applies it
/// after the log that it has, and the resulting state is the new group's first snapshot.
extension ClusterState {
    /// Leaves behind every node that is not a survivor.
    ///
    /// vBuckets with copies only on those nodes have no chain afterwards. vBuckets that lose only
    /// the active copy keep their chain: a promotion has to query the remaining copies first.
    mutating func begin(_ epoch: NewEpoch) -> ClusterOutcome {
        guard isProvisioned else { return .refused(.notInitialised) }
        guard allows(epoch.login, .poolsWrite) else { return .refused(.notPermitted) }
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
        // vBuckets in a joint phase revert to the chain that has a surviving copy.
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
        epochLogin = epoch.login
        counters.count(.quorumFailover)
        pastGroups.append(epoch.formerGroupID)
        groupID = epoch.groupID
        nodesMoved()
        // Copies on nodes that were failed over before are given up as well.
        let gone = gone
        for place in buckets.indices {
            effects += release(leftBehind, ofBucketAt: place)
            effects += lose(gone, ofBucketAt: place)
            effects += part(from: leftBehind, ofBucketAt: place)
        }
        return .applied(effects)
    }

    /// Removes left-behind nodes from chains whose active node was failed over before.
    ///
    /// No other step would remove them, so they could never leave the cluster.
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

    /// Releases former active nodes that are gone: their copies can no longer be used.
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
