internal import Vocabulary

/// The invariants of every state, checked by tests and simulations.
extension ClusterState {
    /// Checks all invariants.
    ///
    /// - Parameter before: An earlier state, to check that indexes and revisions only grow.
    /// - Returns: A sentence per violation; empty if the state is sound.
    package func violations(since before: ClusterState? = nil) -> [String] {
        var found = nodeViolations
        let names = buckets.map { $0.settings.name.lowercased() }
        if Set(names).count != names.count { found.append("two buckets of one name") }
        if quotaExcess > before?.quotaExcess ?? 0 {
            found.append("the buckets' quotas exceed the memory quota by \(quotaExcess) bytes")
        }
        if designBytes > max(Limits.designDocumentsBytesMax, before?.designBytes ?? 0) {
            found.append("the design documents have \(designBytes) bytes")
        }
        found += userViolations
        for bucket in buckets {
            let name = bucket.settings.name
            if bucket.placements.count != bucket.settings.vBuckets {
                found.append("\(name) has \(bucket.placements.count) vBuckets")
            }
            if bucket.targets != nil, rebalance?.bucket != name {
                found.append("\(name) has targets, and no rebalance works on it")
            }
            if bucket.rev > index { found.append("\(name) has a revision beyond the index") }
            found += designViolations(of: bucket)
            for (number, placement) in bucket.placements.enumerated() {
                for text in violations(of: placement) { found.append("\(name) \(number): \(text)") }
            }
        }
        if let before { found += regressions(since: before) }
        return found
    }

    private func designViolations(of bucket: BucketRecord) -> [String] {
        var found: [String] = []
        let (name, documents) = (bucket.settings.name, bucket.designDocuments)
        let isSorted = zip(documents, documents.dropFirst()).allSatisfy { one, other in
            one.name.utf8.lexicographicallyPrecedes(other.name.utf8)
        }
        if !isSorted { found.append("\(name) has design documents out of order") }
        if bucket.designRevision > index { found.append("\(name) has designs beyond the index") }
        return found
    }

    private var userViolations: [String] {
        var found: [String] = []
        let isSorted = zip(users, users.dropFirst()).allSatisfy { one, other in
            one.id.utf8.lexicographicallyPrecedes(other.id.utf8)
        }
        if !isSorted { found.append("the users are out of order") }
        for user in users {
            if Self.flaw(ofUserName: user.id) != nil { found.append("a user is called \(user.id)") }
            if user.hasID(administrator?.name ?? "") { found.append("the administrator is a user") }
            for grant in user.grants where !isGrantable(grant) {
                found.append("\(user.id) has \(grant.text), and there is no such bucket")
            }
        }
        return found
    }

    private var nodeViolations: [String] {
        var found: [String] = []
        let numbers = nodes.map(\.number)
        if numbers != Set(numbers).sorted() { found.append("nodes are not in order") }
        if let last = numbers.last, last >= nextNodeNumber { found.append("a number is reused") }
        if !nodes.isEmpty, activeNodes.isEmpty { found.append("no node is active") }
        for node in nodes {
            if node.fencedAt > index { found.append("\(node.number) is fenced beyond the index") }
            if !groups.contains(where: { $0.name == node.group }) {
                found.append("\(node.number) is in no group")
            }
            let isReturning = node.recovery != .none
            if isReturning, node.membership != .inactiveAdded {
                found.append("\(node.number) recovers and is \(node.membership)")
            }
        }
        if members.contains(where: { $0.level < featureLevel }) {
            found.append("a member announces less than the feature level \(featureLevel.number)")
        }
        let known = Set(numbers)
        for number in (rebalance?.kept ?? []) + (rebalance?.ejected ?? [])
        where !known.contains(number) {
            found.append("the rebalance names removed node \(number)")
        }
        return found
    }

    private func violations(of placement: VBucketPlacement) -> [String] {
        var found: [String] = []
        func check(_ holds: Bool, _ text: String) {
            if !holds { found.append(text) }
        }
        check(
            placement.origin <= placement.branch && placement.branch <= placement.fence
                && placement.fence <= placement.stage && placement.stage <= index,
            "origin, branch, fence, stage and index are out of order"
        )
        let keepsHistory = placement.cause == .takenOver || placement.cause == .resumed
        check(keepsHistory || placement.branch == placement.fence, "a branch older than the fence")
        check(placement.isConfirmed == placement.basis.isEmpty, "a basis without a promotion")
        check(placement.isConfirmed || !placement.isJoint, "unconfirmed between two chains")
        check(placement.isConfirmed || placement.cause == .promoted, "unconfirmed, not promoted")
        check(placement.isJoint == (placement.nextCopies != 0), "target copies without a target")
        check(placement.isJoint ? rebalance != nil : true, "two chains without a rebalance")
        check((1...4).contains(placement.copies), "\(placement.copies) copies")
        check(placement.chain.count <= placement.copies, "more copies than there should be")
        check(placement.next.count <= max(placement.nextCopies, 0), "more copies than wanted")
        check(!placement.isJoint || placement.next != placement.chain, "a move to where it is")
        if placement.chain.isEmpty {
            let rest = [placement.next, placement.basis]
            check(rest.allSatisfy(\.isEmpty) && placement.former == nil, "copies without a chain")
        }
        if placement.isConfirmed, let former = placement.former {
            check(placement.chain.first != former, "the former active one is the active one")
        }
        // Otherwise no copy could be queried, and no rebalance would recreate the vBucket.
        let isLeft =
            placement.chain.isEmpty || placement.former != nil
            || placement.chain.contains { isMember($0) }
        check(!placement.isConfirmed || placement.isJoint || isLeft, "every copy is on a gone node")
        check(!isBesideGone(placement), "served beside a node that is gone")
        let needsPosition = placement.cause == .promoted && !placement.isConfirmed
        check(!needsPosition || placement.expected != nil, "a promotion without a position")
        for node in [placement.chain, placement.next, placement.basis, placement.rowBefore].joined()
        {
            let membership = self.node(number: node)?.membership
            check(membership != nil && membership != .joining, "names \(node), which is no member")
        }
        return found
    }

    private func isMember(_ number: NodeNumber?) -> Bool {
        number.flatMap { node(number: $0) }?.membership == .active
    }

    /// Whether a serving chain contains a node that is not active: no move starts on such a chain,
    /// and no other step removes the node.
    private func isBesideGone(_ placement: VBucketPlacement) -> Bool {
        let all = placement.chain.nodes + placement.next.nodes
        return placement.isConfirmed && isMember(placement.chain.first) && !all.allSatisfy(isMember)
    }

    private func regressions(since before: ClusterState) -> [String] {
        var found: [String] = []
        if index < before.index { found.append("the index fell") }
        if rev < before.rev || revEpoch < before.revEpoch { found.append("the revision fell") }
        if featureLevel < before.featureLevel { found.append("the feature level fell") }
        if nextNodeNumber < before.nextNodeNumber { found.append("the next node number fell") }
        for old in before.buckets {
            guard let new = bucket(named: old.settings.name), new.settings.uuid == old.settings.uuid
            else { continue }
            let name = new.settings.name
            if new.rev < old.rev { found.append("\(name): the revision fell") }
            let isChanged = new.designDocuments != old.designDocuments
            if new.designRevision < old.designRevision
                || isChanged && new.designRevision == old.designRevision
            {
                found.append("\(name): design documents changed without a new revision")
            }
            for (number, pair) in zip(old.placements, new.placements).enumerated() {
                let (old, new) = pair
                if new.fence < old.fence || new.stage < old.stage || new.origin < old.origin
                    || new.branch < old.branch
                {
                    found.append("\(name) \(number): fence or stage fell")
                }
                let isOwnedAnew = old.chain.first != new.chain.first && !old.chain.isEmpty
                if isOwnedAnew, new.fence == old.fence {
                    found.append("\(name) \(number): another active one under the same fence")
                }
                if old.confirmedChain != new.confirmedChain, new.stage == old.stage {
                    found.append("\(name) \(number): another basis at the same stage")
                }
            }
        }
        return found
    }
}
