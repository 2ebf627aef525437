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
    /// - Parameter nodes: The nodes to be failed over, whose copies will not be queried.
    /// - Returns: The reasons; empty if nothing would be lost.
    package func obstacles(failing nodes: Set<NodeNumber>) -> [FailoverBlocker] {
        var round = PromotionRound(bucket: name, activeCounts: [:])
        var isWithoutReplica = false
        for row in rows where row.isAtStake(failing: nodes) {
            if isEphemeral, row.question.copies == 1 {
                isWithoutReplica = true
                continue
            }
            round.decide(row.question, sealed: row.reports.filter { !nodes.contains($0.key) })
        }
        return (isWithoutReplica ? [.ephemeralWithoutReplica(bucket: name)] : []) + round.obstacles
    }
}
