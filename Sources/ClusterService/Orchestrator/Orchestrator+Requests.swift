internal import Orchestration

/// Users' requests that other nodes pass on to the leader.
extension Orchestrator {
    func answer(_ request: LeaderRequest) async -> LeaderAnswer {
        guard isLeading else { return .refused("This node is not the leader of the cluster.") }
        switch request {
        case .failOver(let nodes, let login):
            switch await failOver(nodes, by: login) {
            case .done(_, let sentence): return .done(sentence)
            case .refused(let reason): return .refused(reason)
            }
        case .stopRebalance(let id):
            stopRebalance(id)
            return .done("")
        case .rebalanceReport:
            guard let record = state.rebalance else { return .report(RebalanceReport()) }
            guard rebalancing.id == record.id, let progress = rebalancing.progress else {
                var report = RebalanceReport(record)
                report.obstacle = logObstacle.map { "It has not begun: \($0)" }
                return .report(report)
            }
            return .report(
                RebalanceReport(progress, of: record, obstacle: rebalancing.obstacle)
            )
        case .failoverReasons: return .reasons(failover.reasons)
        case .epochReport: return .done(epoch.sentence)
        }
    }
}
