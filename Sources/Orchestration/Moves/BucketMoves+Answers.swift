internal import Vocabulary

/// The questions of moves to copies, and the answers: reports, hand-overs, activations.
extension BucketMoves {
    /// Asks for reports of all moves that need them: one call per node, at most one under way.
    mutating func ask(_ now: UInt64, into effects: inout [Effect]) {
        guard now >= questions.nextAt else { return }
        var copies: [NodeNumber: [FencedVBucket]] = [:]
        for (vBucket, move) in moves where move.wantsReports {
            for node in move.move.nodes
            where !lost.contains(node) && !questions.asked.contains(node) {
                copies[node, default: []].append(FencedVBucket(vBucket, fence: move.fence))
            }
        }
        guard !copies.isEmpty else { return }
        // The pause doubles until something happens.
        questions.askedAt = now
        questions.nextAt = now + questions.pauseNanoseconds
        questions.pauseNanoseconds = min(
            questions.pauseNanoseconds * 2,
            Self.questionPauseNanosecondsMax
        )
        for (node, vBuckets) in copies.sorted(by: { $0.key < $1.key }) {
            questions.asked.insert(node)
            effects.append(.ask(node, vBuckets.sorted { $0.vBucket < $1.vBucket }))
        }
    }

    /// Handles a node's answer to a question.
    ///
    /// - Parameters:
    ///   - reports: The reports; nil if the node did not answer.
    ///   - node: The node.
    ///   - index: The log index that the node had applied when it answered.
    ///   - record: The bucket's current record.
    mutating func handleReports(
        _ reports: [VBucketID: CopyReport]?,
        of node: NodeNumber,
        at index: UInt64,
        _ record: BucketRecord
    ) {
        questions.asked.remove(node)
        guard let reports else {
            questions.silent.insert(node)
            return
        }
        questions.silent.remove(node)
        for (vBucket, report) in reports.sorted(by: { $0.key < $1.key })
        where moves[vBucket] != nil {
            let placement = record[vBucket]
            let knowsJoint = placement.isJoint && jointSince[vBucket].map { $0 <= index } == true
            let isSource = node == placement.chain.first
            let jointHigh = knowsJoint && isSource ? report.high : nil
            events.append((vBucket, .report(node, report, jointHigh: jointHigh, isReady: true)))
        }
    }

    /// Whether a running move builds a copy of the vBucket on the node.
    func isBuilding(_ vBucket: VBucketID, on node: NodeNumber) -> Bool {
        moves[vBucket]?.move.builders.contains(node) == true
    }

    // MARK: Handing over

    /// The hand-overs in small groups, because all writes of a group wait for its slowest vBucket: open durable
    /// writes can delay it for seconds.
    ///
    /// A vBucket that was too slow once is handed over alone.
    func handOverGroups(_ fenced: [FencedVBucket]) -> [[FencedVBucket]] {
        var groups: [[FencedVBucket]] = []
        var group: [FencedVBucket] = []
        for one in fenced.sorted(by: { $0.vBucket < $1.vBucket }) {
            if moves[one.vBucket]?.wasPostponed == true {
                groups.append([one])
            } else {
                group.append(one)
                if group.count == Limits.takeOversPerCallMax {
                    groups.append(group)
                    group = []
                }
            }
        }
        return group.isEmpty ? groups : groups + [group]
    }

    mutating func handleHandOvers(_ ended: [VBucketID: Seqno], of group: [FencedVBucket]) {
        for fenced in group {
            let event: MoveEvent =
                ended[fenced.vBucket].map {
                    .drained(
                        CopyPosition(branchFence: fenced.fence, covered: $0),
                        fence: fenced.fence
                    )
                } ?? .servesAgain(fence: fenced.fence)
            events.append((fenced.vBucket, event))
        }
    }

    /// Handles the answers of new owners: a copy that cannot serve needs another promotion.
    ///
    /// If a node does not answer, the rule for promotions asks it again.
    mutating func handleActivations(
        _ ready: [NodeNumber: Set<VBucketID>],
        of asked: [NodeNumber: [ActivationSubject]]
    ) {
        for (node, activations) in asked.sorted(by: { $0.key < $1.key }) {
            guard let ready = ready[node] else { continue }
            for one in activations where !ready.contains(one.vBucket) {
                events.append((one.vBucket, .cannotServe(fence: one.fence)))
            }
        }
    }
}
