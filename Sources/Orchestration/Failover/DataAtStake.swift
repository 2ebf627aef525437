package import Vocabulary

/// A bucket for the estimate of a failover's data loss: each vBucket's question and latest reports.
package struct BucketAtStake: Hashable, Sendable {
    /// One vBucket of the bucket.
    package struct Row: Hashable, Sendable {
        package var question: Promotion.Question
        /// The newest report of each copy, of any age: only an estimate; reports of sealed copies
        /// are exact.
        package var reports: [NodeNumber: CopyReport]
        /// Whether the vBucket already waits for a promotion: then the loss of any queried node
        /// counts, not only that of the active one.
        package var isWaiting: Bool

        package init(
            question: Promotion.Question,
            reports: [NodeNumber: CopyReport],
            isWaiting: Bool = false
        ) {
            self.question = question
            self.reports = reports
            self.isWaiting = isWaiting
        }

        func isAtStake(failing nodes: Set<NodeNumber>) -> Bool {
            question.active.map(nodes.contains) ?? false
                || isWaiting && question.asked.contains(where: nodes.contains)
        }
    }

    package var name: String
    package var isEphemeral: Bool
    package var rows: [Row]

    package init(name: String, isEphemeral: Bool, rows: [Row]) {
        self.name = name
        self.isEphemeral = isEphemeral
        self.rows = rows
    }
}

extension BucketAtStake {
    /// The reasons against failing `nodes` over, by the latest reports.
    ///
    /// - Parameters:
    ///   - nodes: The nodes to be failed over, whose copies will not be queried.
    ///   - mayLoseEphemeral: Whether ephemeral buckets without replicas may be lost.
    /// - Returns: The reasons; empty if nothing would be lost.
    package func obstacles(
        failing nodes: Set<NodeNumber>,
        mayLoseEphemeral: Bool
    ) -> [FailoverBlocker] {
        var round = PromotionRound(bucket: name, activeCounts: [:])
        var isWithoutReplica = false
        for row in rows where row.isAtStake(failing: nodes) {
            if isEphemeral, row.question.copies == 1 {
                isWithoutReplica = true
                continue
            }
            round.decide(row.question, sealed: row.reports.filter { !nodes.contains($0.key) })
        }
        let isKept = isWithoutReplica && !mayLoseEphemeral
        return (isKept ? [.ephemeralWithoutReplica(bucket: name)] : []) + round.obstacles
    }

    /// The vBuckets that `node` cannot hand over now, because no other node has a complete copy.
    ///
    /// - Parameters:
    ///   - node: The node that is to leave.
    ///   - isUp: Whether a node can take over.
    /// - Returns: The vBuckets; empty if all can be handed over.
    package func vBucketsKept(
        by node: NodeNumber,
        isUp: (NodeNumber) -> Bool
    ) -> [VBucketID] {
        rows.filter { row in
            guard row.question.active == node else { return false }
            return !row.question.basis.contains { other in
                guard other != node, isUp(other), let report = row.reports[other] else {
                    return false
                }
                return report.isIntact && report.protects && report.fence == row.question.fence
            }
        }.map(\.question.vBucket)
    }
}

/// Whether a node can be failed over without data loss, after it has handed over its vBuckets.
package struct GracefulFailover: Hashable, Sendable {
    /// By bucket name: the vBuckets that cannot be handed over.
    package let kept: [String: [VBucketID]]
    package let isLastNode: Bool

    /// - Parameters:
    ///   - node: The node that is to leave.
    ///   - active: All active nodes.
    ///   - buckets: All buckets.
    ///   - isUp: Whether a node can take over.
    package init(
        of node: NodeNumber,
        among active: [NodeNumber],
        buckets: [BucketAtStake],
        isUp: (NodeNumber) -> Bool
    ) {
        isLastNode = !active.contains { $0 != node }
        var kept: [String: [VBucketID]] = [:]
        for bucket in buckets {
            let found = bucket.vBucketsKept(by: node, isUp: isUp)
            if !found.isEmpty { kept[bucket.name] = found }
        }
        self.kept = kept
    }

    package var isPossible: Bool { !isLastNode && kept.isEmpty }

    /// A sentence for users: why it is not possible; nil if it is.
    package var sentence: String? {
        if isLastNode { return "It is the last active node." }
        if kept.isEmpty { return nil }
        let parts = kept.sorted { $0.key < $1.key }.map { bucket, vBuckets in
            "\(Words.vBuckets(vBuckets)) of the bucket “\(bucket)”"
        }
        return "No other node has a complete copy of \(Words.list(parts)) yet."
    }
}
