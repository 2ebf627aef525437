import ClusterService
import Credentials
import Orchestration
import Testing
import Vocabulary

/// Reports about a rebalance across changes of leader.
@Suite struct RebalanceReportTests {
    private let nodes = [NodeNumber(1), NodeNumber(2)]

    /// A record with a progress mark, as commands make it.
    private func marked(at all: Double, _ second: Double) -> RebalanceRecord? {
        var state = ClusterState(memoryQuota: 1 << 30)
        let administrator = Administrator(name: "a", credentials: [1])
        let birth = Initialisation(uuid: "u", groupID: 1, administrator: administrator)
        let begun = RebalanceRecord(
            id: "r",
            kind: .rebalance,
            kept: [nodes[0]],
            ejected: [],
            startedMilliseconds: 1
        )
        let reached = RebalanceMark(fraction: all, parts: [(nodes[0], second)])
        let commands: [ClusterCommand] = [
            .initialise(birth),
            .addNode(
                NewNode(
                    uuid: "n",
                    host: "h",
                    ports: NodePorts(admin: 1, data: 2),
                    keys: NodeSecrets(seed: [UInt8](repeating: 1, count: 32)).publicKeys
                )
            ),
            .startRebalance(begun),
            .markRebalance(ProgressStep(rebalance: "r", reached: reached)),
        ]
        for (place, command) in commands.enumerated() {
            guard case .applied = state.apply(command, at: UInt64(place + 1)) else { return nil }
        }
        return state.rebalance
    }

    private func progress(done: Int, of count: UInt16) -> RebalanceProgress {
        var progress = RebalanceProgress(nodes: [nodes[0]], bucketsCount: 1)
        let moves = (0..<count).map { PlannedMove(VBucketID($0), from: nodes, to: [nodes[0]]) }
        progress.begin(bucket: "b", number: 1, moves: moves)
        for vBucket in 0..<done { progress.finished(VBucketID(UInt16(vBucket))) }
        return progress
    }

    @Test func leaderReportsNoMoreProgressThanItsSuccessorWould() throws {
        let record = try #require(marked(at: 0.25, 0.5))
        let told = RebalanceReport(progress(done: 9, of: 10), of: record, obstacle: nil)
        #expect(told.fraction == record.reached.limit && told.fraction < 0.9)
        #expect(told.nodes.map(\.fraction) == [record.reached.limit(of: nodes[0])])
        let successor = RebalanceProgress(nodes: nodes, bucketsCount: 1, after: record.reached)
        #expect(successor.fraction == told.fraction)
        #expect(successor.fraction(of: nodes[0]) == told.nodes.first?.fraction)
        let less = RebalanceReport(progress(done: 1, of: 10), of: record, obstacle: nil)
        #expect(less.fraction == 0.1)
    }

    @Test func reportWithoutLeaderRepeatsLastShownReport() throws {
        let record = try #require(marked(at: 0.25, 0.5))
        let told = RebalanceReport(progress(done: 28, of: 100), of: record, obstacle: "b waits")
        let shown = RebalanceReport(told, after: nil, of: record)
        #expect(shown.fraction == 0.28 && shown.obstacle == "b waits")
        let gap = RebalanceReport(nil, after: shown, of: record)
        #expect(gap.fraction == 0.28 && gap.bucket == "b" && gap.obstacle == nil)
        #expect(gap.nodes == shown.nodes)
        // A node without an earlier report shows the agreed progress.
        let elsewhere = RebalanceReport(nil, after: nil, of: record)
        #expect(elsewhere.fraction == 0.25 && elsewhere.nodes.map(\.fraction) == [0.5])
        // A late answer.
        let late = RebalanceReport(progress(done: 26, of: 100), of: record, obstacle: nil)
        #expect(RebalanceReport(late, after: shown, of: record).fraction == 0.28)
    }
}
