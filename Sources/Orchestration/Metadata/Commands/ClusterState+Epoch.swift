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
                ending: .failed,
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
        let leftBehind = leftBehind
        for place in buckets.indices {
            // Copies of former active nodes that are gone can no longer be used.
            effects += changePlacements(ofBucketAt: place, isSeen: false) { placement in
                placement.former.map(leftBehind.contains) == true && placement.release()
            }
            effects += lose(gone, ofBucketAt: place)
            // Removes left-behind nodes from chains whose active node was failed over before: no other
            // step would, so they could never leave the cluster.
            effects += changePlacements(ofBucketAt: place) { [index] placement in
                placement.part(from: leftBehind, at: index)
            }
        }
        return .applied(effects)
    }

    /// Changes the placements of a bucket of which `change` returns true.
    ///
    /// - Parameters:
    ///   - place: The place of the bucket.
    ///   - isSeen: Whether clients see the change.
    ///   - change: Changes a placement, or returns false.
    /// - Returns: The effect, if a placement was changed.
    mutating func changePlacements(
        ofBucketAt place: Int,
        isSeen: Bool = true,
        _ change: (inout VBucketPlacement) -> Bool
    ) -> [ClusterEffect] {
        var changed: [VBucketID] = []
        for number in buckets[place].placements.indices
        where change(&buckets[place].placements[number]) {
            changed.append(VBucketID(UInt16(number)))
        }
        guard !changed.isEmpty else { return [] }
        if isSeen { buckets[place].rev = index }
        return [.assignmentsChanged(bucket: buckets[place].settings.name, changed)]
    }
}
