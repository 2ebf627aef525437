package import Vocabulary

/// Who becomes active when the active copy of a vBucket is lost: decided from sealed copies.
///
/// - Safe: enough of the chain are intact that every committed write meets one of them, or all of
///   the chain were asked. Then no committed write is lost, as long as fewer copies than a majority
///   lost their memory.
/// - A node that was failed over counts as lost: it answers nothing, has nothing, and is not chosen.
/// - Positions are compared, never high seqnos: above covered a copy may lack changes.
/// - Answers from other fences than the question's are none.
package struct Promotion: Hashable, Sendable {
    /// What is asked about one vBucket.
    package struct Question: Hashable, Sendable {
        package var vBucket: VBucketID
        package var fence: UInt64
        package var stage: UInt64
        /// The last confirmed chain: in a joint phase the old one, after a promotion that is not
        /// confirmed the one before it.
        ///
        /// Where all of it is given up, the chain beside it: nobody else has anything.
        package var basis: [NodeNumber]
        /// The active node of the present row, where there is one.
        package var active: NodeNumber?
        /// A former active node whose copy is kept: it is asked too, and may be chosen.
        package var former: NodeNumber?
        /// Copies there should be.
        package var copies: Int
        /// Nodes that were failed over: what they have is given up.
        package var lost: Set<NodeNumber>
        /// Of those, who said that they have nothing.
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

        /// Notes who of those that were failed over has nothing.
        ///
        /// - Parameters:
        ///   - reports: By node: what those that answered have of the bucket.
        ///   - isInMemory: No file of it can be closed somewhere, and have it.
        ///   - isBeingEmptied: A flush runs, and nothing was decided since: who does not answer did
        ///     not live to tell that it has anything again.
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

        /// So many intact copies meet every majority that a write may have been committed by.
        package var intactNeeded: Int { max(1, basis.count - (copies / 2 + 1) + 1) }

        /// Everybody who is to be sealed.
        package var asked: [NodeNumber] {
            guard let former, !basis.contains(former) else { return left }
            return lost.contains(former) ? left : left + [former]
        }

        /// Those of the basis that are not given up.
        var left: [NodeNumber] { basis.filter { !lost.contains($0) } }
    }

    package enum Safety: Hashable, Sendable {
        case safe
        /// A committed write may be on copies that did not answer.
        case mayLoseCommitted(intact: Int, needed: Int, answered: Int, of: Int)
    }

    package var vBucket: VBucketID
    /// Compared with the state when the entry is applied, as is the stage.
    package var fence: UInt64
    package var stage: UInt64
    package var node: NodeNumber
    /// What the chosen copy must still have when it takes up the role.
    package var expected: CopyPosition
    /// The chain from here on, the chosen one first.
    package var row: [NodeNumber]
    package var safety: Safety
    /// Who served it.
    package var former: NodeNumber?
    /// The highest seqno that a copy is known to have, the one that was stopped among them.
    package var known: Seqno

    /// Changes that some copy has and the chosen one has not: at least so many are lost.
    package var changesLost: UInt64 {
        known > expected.covered ? known.value - expected.covered.value : 0
    }

    /// - Parameters:
    ///   - question: The vBucket.
    ///   - sealed: What copies said when they were sealed.
    ///   - stoppedAt: How far the active copy came, where it was stopped and said so.
    ///   - activeCounts: How many vBuckets each node is active for: equal copies go to whoever has
    ///     fewest.
    ///   - givenUp: Nodes that an operator gave up for good: nobody waits for their answer, and what
    ///     only they have is lost. Safe it becomes not by that.
    /// - Returns: The choice, or nil where no copy is left.
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
        // Where everybody was asked and nobody has anything, as when all of a bucket in memory
        // crashed, there is nothing that could be lost: somebody serves it empty. Who was failed over
        // may have all of it, and come back: not before somebody gave that up, too.
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

    /// Whether these copies are enough to know every committed write.
    ///
    /// Either all who may have one answered, a former active node too, whose disk may be the only one
    /// that has it; or so many of the chain that are intact that one of them has it.
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
    /// A copy that is reconciling, or was never built, has no branch to speak of.
    package var protects: Bool { position.branchFence != 0 }
}

/// The choices for all vBuckets of a bucket that a failover touches, and what they cost.
package struct PromotionRound: Hashable, Sendable {
    package let bucket: String
    package private(set) var promotions: [Promotion] = []
    /// No copy is left of these.
    package private(set) var lost: [VBucketID] = []
    private var activeCounts: [NodeNumber: Int]
    private let givenUp: [NodeNumber]
    private let served: [NodeNumber: ServedHighs]

    /// - Parameters:
    ///   - bucket: Its name, for whoever reads the reasons.
    ///   - activeCounts: How many vBuckets each surviving node is active for.
    ///   - served: What nodes that are not asked last said of what they serve.
    ///   - givenUp: Nodes that an operator gave up for good.
    package init(
        bucket: String,
        activeCounts: [NodeNumber: Int],
        served: [NodeNumber: ServedHighs] = [:],
        givenUp: [NodeNumber] = []
    ) {
        self.bucket = bucket
        self.served = served
        self.activeCounts = activeCounts
        self.givenUp = givenUp
    }

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

    /// Committed writes of these may be lost.
    package var unsafe: [VBucketID] { promotions.filter { $0.safety != .safe }.map(\.vBucket) }

    /// Changes that are known to have been made and that the chosen copies do not have: at least.
    ///
    /// By what copies have, or by what those that served them had said, whichever is more. The latter
    /// is of all that such a node served: it says nothing where only some of that goes on. What has no
    /// other copy is no part of this: it may be back with its node.
    package var changesLost: UInt64 {
        Dictionary(grouping: promotions, by: \.former).reduce(0) { lost, group in
            let seen = group.value.reduce(0) { $0 + $1.changesLost }
            let kept = group.value.reduce(into: ServedHighs()) { kept, choice in
                kept.add(choice.vBucket, fence: choice.fence, high: choice.expected.covered)
            }
            guard let former = group.key, let said = served[former], said.mark == kept.mark,
                said.sum > kept.sum
            else { return lost + seen }
            return lost + max(seen, said.sum - kept.sum)
        }
    }

    /// Why automatic failover leaves this bucket alone; an operator may go on.
    package var obstacles: [WhyNot] {
        var found: [WhyNot] = []
        if !lost.isEmpty { found.append(.noReplica(bucket: bucket, vBuckets: lost)) }
        if !unsafe.isEmpty { found.append(.wouldLoseDurable(bucket: bucket, vBuckets: unsafe)) }
        return found
    }
}
