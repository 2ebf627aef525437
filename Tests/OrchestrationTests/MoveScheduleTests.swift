import Orchestration
import Testing
import Vocabulary

/// A planned move of a vBucket between two chains.
func move(
    _ vBucket: UInt16,
    _ row: [UInt16],
    _ target: [UInt16],
    items: UInt64 = 0
) -> PlannedMove {
    PlannedMove(
        VBucketID(vBucket),
        from: row.map { NodeNumber($0) },
        to: target.map { NodeNumber($0) },
        items: items
    )
}

/// The moves that start next.
@Suite struct MoveScheduleTests {
    private func started(
        _ waiting: [PlannedMove],
        running: [MoveSchedule.Running] = [],
        _ change: (inout MoveSchedule) -> Void = { _ in }
    ) -> [UInt16] {
        var schedule = MoveSchedule(waiting: waiting)
        change(&schedule)
        return schedule.next(running: running).map(\.vBucket.number)
    }

    @Test func chainsOfMoveDecideItsKindAndWeight() {
        #expect(move(0, [], [1]).kind == .creation)
        #expect(move(0, [1, 2], [2, 1]).kind == .roleSwap)
        #expect(move(0, [1, 2], [2]).kind == .roleSwap)
        #expect(move(0, [1, 2], [3, 2]).kind == .active)
        #expect(move(0, [1, 2], [1, 3]).kind == .replica)
        #expect(move(0, [1, 2], [3, 2], items: 50).weight == 250)
        #expect(move(0, [1, 2], [1, 3]).leavers == [NodeNumber(2)])
    }

    @Test func roleSwapsStartBeforeBuilds() {
        let waiting = [
            move(0, [1, 2], [1, 3]), move(1, [4, 5], [6, 5]), move(2, [7, 8], [8, 7]),
            move(3, [], [9]),
        ]
        #expect(started(waiting) == [3, 2, 1, 0])
    }

    @Test func nodeFeedsALimitedNumberOfCopies() {
        let waiting = (0..<9).map { move($0, [1], [1, $0 + 2], items: 4_000) }
        #expect(started(waiting) == [0, 1, 2, 3])
        #expect(started(waiting) { $0.movesPerNode = 2 } == [0, 1])
    }

    @Test func nodeBuildsALimitedNumberOfCopies() {
        let waiting = (0..<9).map { move($0, [$0 + 2], [$0 + 2, 1], items: 4_000) }
        #expect(started(waiting) == [0, 1, 2, 3])
    }

    @Test func smallCopiesAreBuiltInLargerNumbers() {
        let empty = (0..<300).map { move($0, [1], [1, 2]) }
        #expect(started(empty).count == Limits.buildsPerNodeMax)
        // Small copies together may have as many items as four copies of 4 096.
        let small = (0..<300).map { move($0, [1], [1, 2], items: 800) }
        #expect(started(small).count == 20)
        #expect(started(small) { $0.movesPerNode = 1 }.count == 5)
        let large = [move(0, [1], [1, 2], items: 1_000_000)] + small.dropFirst()
        #expect(started(Array(large)).count == 4)
    }

    @Test func completeCopiesMakeRoomForBuilds() {
        let waiting = [move(9, [1], [1, 2], items: 4_000)]
        let moves = (0..<4).map { move($0, [1], [1, 2], items: 4_000) }
        #expect(started(waiting, running: moves.map { .init($0, .building) }).isEmpty)
        let three = moves.enumerated().map { index, move in
            MoveSchedule.Running(move, index == 0 ? .finishing : .building)
        }
        #expect(started(waiting, running: three) == [9])
        let many = (0..<UInt16(Limits.movesFinishingPerNodeMax)).map {
            MoveSchedule.Running(move($0 + 100, [1], [1, 2]), .finishing)
        }
        #expect(started(waiting, running: many).isEmpty)
    }

    @Test func chainWithManyNewCopiesIsBuiltAlone() {
        let waiting = [
            move(0, [1], [1, 2, 3, 4], items: 4_000), move(1, [1], [1, 5], items: 4_000),
        ]
        #expect(started(waiting) { $0.movesPerNode = 2 } == [0])
    }

    @Test func nodeTakesPartInALimitedNumberOfTakeovers() {
        let most = Limits.takeOversPerNodeMax
        let waiting = (0..<UInt16(most + 3)).map { move($0, [1, $0 + 2], [$0 + 2, 1]) }
        #expect(started(waiting).count == most)
        let running = [MoveSchedule.Running(move(900, [1, 2], [2, 1]), .takingOver)]
        #expect(started(waiting, running: running).count == most - 1)

        let schedule = MoveSchedule(waiting: [])
        let ready = (0..<UInt16(most + 3)).map { move($0, [1, 2], [3, 2]) }
        let finishing = ready.map { MoveSchedule.Running($0, .finishing) }
        let turns = schedule.takeOvers(of: ready, running: finishing + running)
        #expect(turns == Array(ready.prefix(most - 1)))
        #expect(schedule.takeOvers(of: [ready[0]], running: finishing) == [ready[0]])
    }

    @Test func movesBetweenIdlePairsStartFirst() {
        let waiting = [
            move(0, [1], [1, 3]), move(1, [1], [1, 3]), move(2, [2], [2, 4]),
        ]
        #expect(started(waiting) == [0, 2, 1])
    }

    @Test func movesOfTheMostLoadedNodeStartFirst() {
        let waiting = [
            move(0, [1], [1, 3]), move(1, [2], [2, 3], items: 5_000),
        ]
        #expect(started(waiting) { $0.movesPerNode = 1 } == [1])
    }

    @Test func movesOfAnAbsentNodeDoNotStart() {
        let waiting = [move(0, [1, 2], [1, 3]), move(1, [4], [4, 5])]
        #expect(started(waiting) { $0.absent = [NodeNumber(2)] } == [1])
    }

    /// A whole rebalance whose moves end in any order: all moves start, and no node exceeds its
    /// limits.
    @Test(arguments: 0..<8) func everyMoveStartsAndNoNodeExceedsItsLimits(_ seed: UInt64) {
        var dice = Dice(seed &+ 77)
        let before = (1...UInt16(3 + dice.roll(5))).map { PlacementNode(NodeNumber($0)) }
        let after = (3...UInt16(6 + dice.roll(5))).map { PlacementNode(NodeNumber($0)) }
        let copies = 1 + dice.roll(3)
        let rows = InitialPlacement.rows(vBuckets: 128, nodes: before, copies: copies)
        let plan = RebalancePlan(rows: rows, nodes: after, copies: copies)
        let moves = plan.changes(from: rows).map {
            PlannedMove(
                VBucketID(UInt16($0)),
                from: rows[$0],
                to: plan.targets[$0],
                items: UInt64(dice.roll(1_000))
            )
        }
        var schedule = MoveSchedule(waiting: moves)
        var running: [MoveSchedule.Running] = []
        var progress = RebalanceProgress(
            nodes: (1...20).map { NodeNumber($0) },
            bucketsCount: 1
        )
        progress.begin(bucket: "b", number: 1, moves: moves)
        var shown = 0.0
        var finished = 0
        for _ in 0..<20_000 where finished < moves.count {
            for move in schedule.start(running: running) {
                running.append(.init(move, move.kind == .roleSwap ? .takingOver : .building))
            }
            expectWithinLimits(running, "seed \(seed)")
            guard !running.isEmpty else { break }
            let one = dice.roll(running.count)
            let move = running[one].move
            switch running[one].phase {
            case .building:
                progress.sent(UInt64(dice.roll(1_000)), of: move.vBucket)
                if dice.roll(2) == 0 { running[one].phase = .finishing }
            case .finishing where move.takesOver:
                if !schedule.takeOvers(of: [move], running: running).isEmpty {
                    running[one].phase = .takingOver
                }
            case .finishing, .takingOver:
                progress.finished(move.vBucket)
                running.remove(at: one)
                finished += 1
            }
            #expect(progress.fraction >= shown, "seed \(seed)")
            shown = progress.fraction
        }
        #expect(finished == moves.count, "seed \(seed)")
        #expect(progress.fraction == 1)
        #expect((1...20).allSatisfy { progress.fraction(of: NodeNumber($0)) == 1 })
    }

    private func expectWithinLimits(_ running: [MoveSchedule.Running], _ place: String) {
        for node in (UInt16(1)...20).map({ NodeNumber($0) }) {
            let building = running.filter { $0.phase == .building }.map(\.move)
            let feeds = building.filter { $0.source == node }
            let builds = building.filter { $0.builders.contains(node) }
            let takes = running.count {
                $0.phase == .takingOver
                    && ($0.move.row.first == node || $0.move.target.first == node)
            }
            // At most the allowed number of copies, or the items of that many small copies.
            let light = UInt64(Limits.movesPerNodeDefault) * Limits.lightBuildItems
            let fed = feeds.reduce(0) { $0 + $1.builders.count }
            let items = feeds.reduce(0) { $0 + $1.items * UInt64($1.builders.count) }
            #expect(fed <= Limits.movesPerNodeDefault || items <= light, "\(place)")
            let built = builds.reduce(0) { $0 + $1.items }
            #expect(builds.count <= Limits.movesPerNodeDefault || built <= light, "\(place)")
            #expect(max(fed, builds.count) <= Limits.buildsPerNodeMax, "\(place)")
            #expect(takes <= Limits.takeOversPerNodeMax, "\(place)")
        }
    }
}
