package import Vocabulary

/// A bucket as a failover sees it: what is asked about each vBucket, and what copies last said.
package struct BucketAtStake: Hashable, Sendable {
    package struct Row: Hashable, Sendable {
        package var question: Promotion.Question
        /// The newest reports, of whatever age: an estimate; sealed copies tell the truth.
        package var reports: [NodeNumber: CopyReport]
        /// Its active copy serves nobody, or is given up: whoever is to be asked must not be.
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
    /// What speaks against failing `nodes` over, as far as the last reports tell.
    ///
    /// - Parameters:
    ///   - nodes: Whose copies will not be asked.
    ///   - mayLoseEphemeral: The settings give up buckets without disk or replicas.
    /// - Returns: The reasons; none where nothing would be lost.
    package func obstacles(
        failing nodes: Set<NodeNumber>,
        mayLoseEphemeral: Bool
    ) -> [WhyNot] {
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

    /// The vBuckets that `node` could not hand over now, because no other copy is complete.
    ///
    /// - Parameters:
    ///   - node: The node that is to leave.
    ///   - isUp: Whether another node can take over.
    /// - Returns: Their numbers.
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

/// Whether a node can be failed over without losing anything: its vBuckets handed over first.
package struct GracefulFailover: Hashable, Sendable {
    /// By bucket: what would be lost.
    package let kept: [String: [VBucketID]]
    package let isLastNode: Bool

    /// - Parameters:
    ///   - node: The node that is to leave.
    ///   - active: All active nodes.
    ///   - buckets: All buckets.
    ///   - isUp: Whether another node can take over.
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

    /// Why not; nil where it is possible.
    package var sentence: String? {
        if isLastNode { return "It is the last active node." }
        if kept.isEmpty { return nil }
        let parts = kept.sorted { $0.key < $1.key }.map { bucket, vBuckets in
            "\(Words.vBuckets(vBuckets)) of the bucket “\(bucket)”"
        }
        return "No other node has a complete copy of \(Words.list(parts)) yet."
    }
}
