package import Vocabulary

/// The vBucket assignments that nodes carry out, derived from the agreed state.
extension ClusterState {
    /// The assignments of a bucket's vBuckets as of `index`; nil if there is no such bucket.
    package func assignment(ofBucket name: String) -> BucketAssignment? {
        guard let bucket = bucket(named: name) else { return nil }
        let returning = returning
        return BucketAssignment(
            name: name,
            uuid: bucket.settings.uuid,
            index: index,
            vBuckets: bucket.placements.indices.map { number in
                Self.assignment(of: bucket, number, returning)
            }
        )
    }

    /// The assignment of one vBucket; nil if the bucket or the vBucket does not exist.
    package func assignment(ofBucket name: String, _ vBucket: VBucketID) -> VBucketAssignment? {
        guard let bucket = bucket(named: name),
            bucket.placements.indices.contains(Int(vBucket.number))
        else { return nil }
        return Self.assignment(of: bucket, Int(vBucket.number), returning)
    }

    /// Failed-over nodes whose old copies a delta recovery may still use.
    var returning: [NodeNumber] {
        nodes.filter { node in
            switch node.membership {
            case .inactiveFailed: true
            case .inactiveAdded: node.recovery == .delta
            // Include a node that a graceful failover empties: a later recovery uses its copies.
            case .active:
                rebalance.map { rebalance in
                    rebalance.delta.contains(node.number)
                        || rebalance.kind == .gracefulFailover
                            && rebalance.ejected.contains(node.number)
                } ?? false
            case .joining, .leftBehind: false
            }
        }.map(\.number)
    }

    /// Returning nodes that the running rebalance does not eject: if one of them has the last copy
    /// of a vBucket, the vBucket is not recreated.
    package var awaited: Set<NodeNumber> { Set(returning).subtracting(rebalance?.ejected ?? []) }

    private static func assignment(
        of bucket: BucketRecord,
        _ number: Int,
        _ returning: [NodeNumber]
    ) -> VBucketAssignment {
        let placement = bucket.placements[number]
        func hasNoCopy(_ node: NodeNumber) -> Bool {
            !placement.chain.contains(node) && !placement.next.contains(node)
        }
        let builders = bucket.targets?.rows[number].filter(hasNoCopy) ?? []
        var kept = placement.basis.filter(hasNoCopy)
        if !placement.rowBefore.isEmpty {
            kept += placement.rowBefore.filter { node in
                hasNoCopy(node) && returning.contains(node) && !kept.contains(node)
            }
        }
        return VBucketAssignment(
            fence: placement.fence,
            stage: placement.stage,
            chain: placement.chain.nodes,
            isConfirmed: placement.isConfirmed,
            nextChain: placement.next.nodes,
            builders: placement.chain.isEmpty ? [] : builders,
            former: placement.former,
            copies: Int(placement.copies),
            nextCopies: placement.isJoint ? Int(placement.nextCopies) : nil,
            origin: placement.origin,
            branch: placement.branch,
            isResumed: placement.cause == .resumed,
            kept: kept
        )
    }
}
