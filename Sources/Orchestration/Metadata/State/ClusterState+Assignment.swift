package import Vocabulary

/// What a node has to carry out, derived from what was agreed on.
extension ClusterState {
    /// All of a bucket, as of `index`; nil where there is no such bucket.
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

    /// One vBucket of a bucket; nil where there is none.
    package func assignment(ofBucket name: String, _ vBucket: VBucketID) -> VBucketAssignment? {
        guard let bucket = bucket(named: name),
            bucket.placements.indices.contains(Int(vBucket.number))
        else { return nil }
        return Self.assignment(of: bucket, Int(vBucket.number), returning)
    }

    /// Nodes that were failed over and may come back with their old copies.
    var returning: [NodeNumber] {
        nodes.filter { node in
            switch node.membership {
            case .inactiveFailed: true
            case .inactiveAdded: node.recovery == .delta
            // Also what a graceful failover has moved away already, for the way back.
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

    /// Those whose last copies are not made anew by the rebalance that runs: it does not take them out.
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
