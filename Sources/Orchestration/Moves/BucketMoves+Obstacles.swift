internal import Vocabulary

/// The sentence that tells an operator what the moves wait for, with the node's name.
extension BucketMoves {
    /// The sentence that tells an operator what the slowest move waits for, or why no move can be started.
    ///
    /// Fails the moves if none could be started for long.
    mutating func obstacle(_ view: LeaderView) -> String? {
        let absent = moves.values.lazy.compactMap(\.obstacle).first { $0.cause == .nodeAbsent }
        if let obstacle = absent ?? firstObstacle(view) {
            end.idleSince = nil
            return sentence(obstacle, view)
        }
        guard let move = schedule.waiting.first else {
            end.idleSince = nil
            return openProposals > 0 || !actions.isEmpty ? view.logObstacle : nil
        }
        guard let node = move.nodes.filter({ lost.contains($0) }).min() else {
            end.idleSince = nil
            return sentence(view.agreement(on: move.vBucket, at: .building), view)
        }
        let obstacle = MoveObstacle(
            vBucket: move.vBucket,
            step: .building,
            node: node,
            cause: .nodeAbsent
        )
        let text = sentence(obstacle, view)
        let since = end.idleSince ?? view.now
        end.idleSince = since
        if view.now >= since + Limits.moveStalledMilliseconds * 1_000_000 { fail(text) }
        return text
    }

    private func firstObstacle(_ view: LeaderView) -> MoveObstacle? {
        guard let (vBucket, move) = moves.min(by: { $0.key < $1.key }) else { return nil }
        switch move.step {
        case .joining, .finishing, .takingOver, .reverting:
            return view.agreement(on: vBucket, at: move.step)
        default: break
        }
        guard var obstacle = move.obstacle else {
            return view.agreement(on: vBucket, at: move.step)
        }
        guard obstacle.cause == .hasNotAnswered || questions.silent.contains(obstacle.node) else {
            return obstacle
        }
        // A node that is behind in the log answers only after it has applied the caller's entries.
        let missing = view.log.missing(on: obstacle.node)
        obstacle.cause = missing > 0 ? .notInLog(entries: missing) : .hasNotAnswered
        return obstacle
    }

    private func sentence(_ obstacle: MoveObstacle, _ view: LeaderView) -> String {
        obstacle.sentence(bucket: bucket, naming: { view.name($0) })
    }
}
