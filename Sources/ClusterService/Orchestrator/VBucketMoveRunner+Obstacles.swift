internal import Orchestration
internal import Vocabulary

/// The sentence that tells an operator what the rebalance waits for, with the node's name.
///
/// It is never empty before the rebalance ends.
extension VBucketMoveRunner {
    /// Publishes what the slowest move waits for, or why no move can be started.
    func show(_ orchestrator: isolated Orchestrator) {
        let absent = moves.values.lazy.compactMap(\.obstacle).first { $0.cause == .nodeAbsent }
        if let obstacle = absent ?? firstObstacle(orchestrator) {
            idleSince = nil
            return orchestrator.show(obstacle: sentence(obstacle, orchestrator))
        }
        guard let move = schedule.waiting.first else {
            idleSince = nil
            let isOpen = openProposals > 0 || !actions.isEmpty
            return orchestrator.show(obstacle: isOpen ? orchestrator.logObstacle : nil)
        }
        guard let node = move.nodes.filter({ lost.contains($0) }).min() else {
            idleSince = nil
            let next = orchestrator.agreement(on: move.vBucket, at: .building)
            return orchestrator.show(obstacle: sentence(next, orchestrator))
        }
        let obstacle = MoveObstacle(
            vBucket: move.vBucket,
            step: .building,
            node: node,
            cause: .nodeAbsent
        )
        let text = sentence(obstacle, orchestrator)
        orchestrator.show(obstacle: text)
        let since = idleSince ?? orchestrator.now
        idleSince = since
        if orchestrator.now >= since + Limits.moveStalledMilliseconds * 1_000_000 { fail(text) }
    }

    private func firstObstacle(_ orchestrator: isolated Orchestrator) -> MoveObstacle? {
        guard let (vBucket, move) = moves.min(by: { $0.key < $1.key }) else { return nil }
        switch move.step {
        case .joining, .finishing, .takingOver, .reverting:
            return orchestrator.agreement(on: vBucket, at: move.step)
        default: break
        }
        guard var obstacle = move.obstacle else {
            return orchestrator.agreement(on: vBucket, at: move.step)
        }
        guard obstacle.cause == .hasNotAnswered || silent.contains(obstacle.node) else {
            return obstacle
        }
        // A node that is behind in the log answers only after it has applied the caller's entries.
        let missing = orchestrator.member.driver.status.missing(on: obstacle.node)
        obstacle.cause = missing > 0 ? .notInLog(entries: missing) : .hasNotAnswered
        return obstacle
    }

    private func sentence(
        _ obstacle: MoveObstacle,
        _ orchestrator: isolated Orchestrator
    ) -> String {
        obstacle.sentence(bucket: bucket, naming: { orchestrator.name($0) })
    }
}

extension Orchestrator {
    /// The obstacle of a step that waits for agreement: the node furthest behind in the log.
    func agreement(on vBucket: VBucketID, at step: MoveStep) -> MoveObstacle {
        let laggard = member.driver.status.laggard
        return MoveObstacle(
            vBucket: vBucket,
            step: step,
            node: laggard?.node ?? member.node,
            cause: laggard.map { .notInLog(entries: $0.entries) } ?? .notAgreed
        )
    }

    /// The node that delays agreement, in a sentence that names no vBucket; nil if none does.
    var logObstacle: String? {
        member.driver.status.laggard.map { node, entries in
            "\(name(node)) has yet to write \(entries == 1 ? "1 step" : "\(entries) steps") of the "
                + "cluster's log to disk."
        }
    }
}
