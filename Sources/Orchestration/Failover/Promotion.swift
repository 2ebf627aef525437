package import Vocabulary

/// The choice of a vBucket's new active copy among sealed copies, after the active copy is lost.
///
/// - A promotion is safe if enough copies of the chain are intact (in-sync) that every committed
///   write is on one of them, or if all copies of the chain answered. Then no committed write is
///   lost, as long as fewer copies than a majority lost their memory.
/// - A failed-over node counts as lost: it is not queried, holds nothing, and is not chosen.
/// - Positions are compared, never high seqnos: above its covered seqno a copy may lack changes.
/// - Answers with a fence other than the question's are ignored.
package struct Promotion: Hashable, Sendable {
    /// One vBucket without a serving copy, and the copies to be queried.
    package struct Question: Hashable, Sendable {
        package var vBucket: VBucketID
        package var fence: UInt64
        package var stage: UInt64
        /// The last confirmed chain: in a joint phase the old chain, during an unconfirmed
        /// promotion the chain before it.
        ///
        /// If all of that chain is lost, the next chain with a remaining node: only its nodes have
        /// copies.
        package var basis: [NodeNumber]
        /// The first node of the present chain; nil if the chain is empty.
        package var active: NodeNumber?
        /// A former active node that keeps its copy: it is queried too and may be chosen.
        package var former: NodeNumber?
        /// Copies that the vBucket should have: 1 + replicas.
        package var copies: Int
        /// Failed-over nodes, whose copies do not count.
        package var lost: Set<NodeNumber>
        /// The lost nodes that are known to hold no data of the vBucket.
        package var emptied: Set<NodeNumber> = []

        package init(
            vBucket: VBucketID,
            basis: [NodeNumber],
            of assignment: VBucketAssignment,
            lost: Set<NodeNumber> = []
        ) {
            self.lost = lost
            self.vBucket = vBucket
            fence = assignment.fence
            stage = assignment.stage
            let chains = [basis, assignment.nextChain, assignment.chain]
            self.basis = chains.first { !lost.isSuperset(of: $0) } ?? basis
            active = assignment.chain.first
            former = assignment.former
            copies = assignment.copies
        }

        /// Determines which lost nodes hold no data of the vBucket (`emptied`).
        ///
        /// - Parameters:
        ///   - reports: By node: the copies of the bucket on each node that answered.
        ///   - isInMemory: Whether the bucket is ephemeral: then a missing copy cannot be in a file
        ///     that is not open.
        ///   - isBeingEmptied: `BucketRecord.isBeingEmptied`: then a node that does not answer
        ///     counts as empty.
        package mutating func noteEmptied(
            _ reports: [NodeNumber: [VBucketID: CopyReport]],
            isInMemory: Bool,
            isBeingEmptied: Bool
        ) {
            emptied = lost.filter { node in
                guard basis.contains(node) else { return false }
                guard let known = reports[node] else { return isBeingEmptied }
                guard let report = known[vBucket] else { return isInMemory }
                return !report.protects
            }
        }

        /// The number of intact copies that intersects every majority that may have committed a
        /// write.
        package var intactNeeded: Int { max(1, basis.count - (copies / 2 + 1) + 1) }

        /// Every node whose copy is to be sealed.
        package var asked: [NodeNumber] {
            guard let former, !basis.contains(former) else { return left }
            return lost.contains(former) ? left : left + [former]
        }

        /// The nodes of the basis that are not lost.
        var left: [NodeNumber] { basis.filter { !lost.contains($0) } }
    }

    /// Whether a promotion may lose committed writes.
    package enum Safety: Hashable, Sendable {
        case safe
        /// A committed write may exist only on copies that did not answer.
        case mayLoseCommitted(intact: Int, needed: Int, answered: Int, of: Int)
    }

    package var vBucket: VBucketID
    /// Like `stage`, compared with the state when the entry is applied.
    package var fence: UInt64
    package var stage: UInt64
    package var node: NodeNumber
    /// The position that the chosen copy must still have when it becomes active.
    package var expected: CopyPosition
    /// The new chain, the chosen node first.
    package var row: [NodeNumber]
    package var safety: Safety
    /// The previous active node.
    package var former: NodeNumber?
    /// The highest known seqno of any copy, including the stopped active copy.
    package var known: Seqno

    /// Changes that another copy has and the chosen one lacks: a lower bound of the lost changes.
    package var changesLost: UInt64 {
        known > expected.covered ? known.value - expected.covered.value : 0
    }

    /// Chooses the copy to promote.
    ///
    /// - Parameters:
    ///   - question: The vBucket and the copies that were queried.
    ///   - sealed: By node: the report of its sealed copy.
    ///   - stoppedAt: The high seqno that the active copy reported when it was stopped; else zero.
    ///   - activeCounts: By node: the number of vBuckets it is active for; among equal copies, the
    ///     node with the fewest is chosen.
    ///   - givenUp: Nodes that an operator gave up: their answers are not waited for, and data that
    ///     only they have is lost. That does not make the promotion safe.
    /// - Returns: The choice; nil if no queried copy can be promoted.
    package static func choose(
        _ question: Question,
        sealed: [NodeNumber: CopyReport],
        stoppedAt: Seqno = .zero,
        activeCounts: [NodeNumber: Int] = [:],
        givenUp: [NodeNumber] = []
    ) -> Promotion? {
        let answers = question.asked.compactMap { node in
            sealed[node].map { (node: node, report: $0) }
        }.filter { $0.report.fence == question.fence && $0.report.vBucket == question.vBucket }
        let able = answers.filter { $0.report.protects }
        // If every copy answered and none has data, as after a crash of all nodes of an ephemeral
        // bucket, nothing can be lost: one of them serves the vBucket empty. A failed-over node may
        // have all the data and return, so it has to be known as empty or be given up first.
        let isWhole =
            (question.asked + question.basis).allSatisfy { node in
                givenUp.contains(node) || question.emptied.contains(node)
                    || answers.contains { $0.node == node }
            }
        let candidates = able.isEmpty && isWhole ? answers : able
        let rank = { (node: NodeNumber, report: CopyReport) in
            let isUnreadable = report.isUnreadable ? 1 : 0
            return (isUnreadable, node == question.active ? 0 : 1, activeCounts[node] ?? 0, node)
        }
        let chosen = candidates.max { one, other in
            if one.report.position != other.report.position {
                return one.report.position < other.report.position
            }
            return rank(one.node, one.report) > rank(other.node, other.report)
        }
        guard let chosen else { return nil }
        let position = chosen.report.position
        let highs = answers.filter { $0.report.position.branchFence == position.branchFence }
            .map(\.report.high)
        let answered = answers.filter { question.basis.contains($0.node) }
        let others = answered.filter { $0.node != chosen.node }.prefix(question.copies - 1)
        return Promotion(
            vBucket: question.vBucket,
            fence: question.fence,
            stage: question.stage,
            node: chosen.node,
            expected: position,
            row: [chosen.node] + others.map(\.node),
            safety: safety(question, answers),
            former: question.active,
            known: max(stoppedAt, highs.max() ?? position.covered)
        )
    }

    /// Whether the answers contain every committed write.
    ///
    /// Either every queried copy answered, including a former active node, whose disk may be the
    /// only one with a write; or enough intact copies of the basis answered (`intactNeeded`).
    private static func safety(
        _ question: Question,
        _ answers: [(node: NodeNumber, report: CopyReport)]
    ) -> Safety {
        let answered = answers.filter { question.basis.contains($0.node) }
        let intact = answered.count { $0.report.isIntact && $0.report.protects }
        let isWhole = question.asked.allSatisfy { node in answers.contains { $0.node == node } }
        if isWhole || intact >= question.intactNeeded { return .safe }
        return .mayLoseCommitted(
            intact: intact,
            needed: question.intactNeeded,
            answered: answered.count,
            of: question.basis.count
        )
    }
}

extension CopyReport {
    /// Whether the copy has a valid position: false while it reconciles and before it is built.
    package var protects: Bool { position.branchFence != 0 }
}

/// The promotions of all vBuckets of a bucket that a failover affects, and the data they lose.
package struct PromotionRound: Hashable, Sendable {
    package let bucket: String
    package private(set) var promotions: [Promotion] = []
    /// vBuckets without a copy that can be promoted.
    package private(set) var lost: [VBucketID] = []
    private var activeCounts: [NodeNumber: Int]
    private let givenUp: [NodeNumber]
    private let served: [NodeNumber: ActiveSeqnoDigest]

    /// - Parameters:
    ///   - bucket: The bucket's name, for the texts of reasons.
    ///   - activeCounts: By surviving node: the number of vBuckets it is active for.
    ///   - served: By node that is not queried: its last digest of the vBuckets it serves.
    ///   - givenUp: Nodes that an operator gave up.
    package init(
        bucket: String,
        activeCounts: [NodeNumber: Int],
        served: [NodeNumber: ActiveSeqnoDigest] = [:],
        givenUp: [NodeNumber] = []
    ) {
        self.bucket = bucket
        self.served = served
        self.activeCounts = activeCounts
        self.givenUp = givenUp
    }

    /// Chooses the copy of one vBucket; adds the vBucket to `lost` if none can be promoted.
    package mutating func decide(
        _ question: Promotion.Question,
        sealed: [NodeNumber: CopyReport],
        stoppedAt: Seqno = .zero
    ) {
        let choice = Promotion.choose(
            question,
            sealed: sealed,
            stoppedAt: stoppedAt,
            activeCounts: activeCounts,
            givenUp: givenUp
        )
        guard let choice else {
            lost.append(question.vBucket)
            return
        }
        promotions.append(choice)
        if choice.node != question.active { activeCounts[choice.node, default: 0] += 1 }
    }

    /// Reduces the round to the promotions that took effect; the other vBuckets are decided again.
    ///
    /// - Parameters:
    ///   - bucket: The bucket after the promotions; nil if it was deleted.
    ///   - nodes: The nodes that are failed over.
    package mutating func keepSettled(in bucket: BucketRecord?, without nodes: [NodeNumber]) {
        promotions.removeAll { choice in
            guard let active = bucket?[choice.vBucket].chain.first else { return true }
            return nodes.contains(active)
        }
        lost = []
    }

    /// Reduces the round to the promotions that cannot lose committed writes.
    mutating func keepSafe() { promotions.removeAll { $0.safety != .safe } }

    /// vBuckets whose promotion may lose committed writes.
    package var unsafe: [VBucketID] { promotions.filter { $0.safety != .safe }.map(\.vBucket) }

    /// A lower bound of the changes that were made and that the chosen copies lack.
    ///
    /// Per former active node, the larger of two counts: the changes that other copies have, and
    /// the changes in that node's last digest. The digest covers all vBuckets of the node, so it is
    /// used only if all of them are promoted. vBuckets without another copy are not counted: they
    /// may return with their node.
    package var changesLost: UInt64 {
        Dictionary(grouping: promotions, by: \.former).reduce(0) { lost, group in
            let seen = group.value.reduce(0) { $0 + $1.changesLost }
            let kept = group.value.reduce(into: ActiveSeqnoDigest()) { kept, choice in
                kept.add(choice.vBucket, fence: choice.fence, high: choice.expected.covered)
            }
            guard let former = group.key, let said = served[former], said.mark == kept.mark,
                said.sum > kept.sum
            else { return lost + seen }
            return lost + max(seen, said.sum - kept.sum)
        }
    }

    /// Reasons against an automatic failover; an operator may override them.
    ///
    /// Empty if nothing is lost.
    package var obstacles: [FailoverBlocker] {
        var found: [FailoverBlocker] = []
        if !lost.isEmpty { found.append(.noReplica(bucket: bucket, vBuckets: lost)) }
        if !unsafe.isEmpty { found.append(.wouldLoseDurable(bucket: bucket, vBuckets: unsafe)) }
        return found
    }
}

extension ClusterState {
    /// Whether a failover has still to decide: one of its nodes is active for a vBucket, and no
    /// round has found that no other node has a copy of it.
    ///
    /// A promotion has no effect on a vBucket that changed since its copies were asked.
    ///
    /// - Parameters:
    ///   - nodes: The nodes that are failed over.
    ///   - lost: By bucket: the vBuckets without another copy.
    /// - Returns: Whether to ask the copies again before the nodes are removed.
    package func isServed(
        by nodes: [NodeNumber],
        except lost: [String: Set<VBucketID>]
    ) -> Bool {
        buckets.contains { bucket in
            let lost = lost[bucket.settings.name] ?? []
            return bucket.numberedPlacements.contains { vBucket, placement in
                let isTheirs = placement.chain.first.map(nodes.contains) ?? false
                return isTheirs && !lost.contains(vBucket)
            }
        }
    }
}
