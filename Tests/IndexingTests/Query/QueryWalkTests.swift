import Bytes
import Indexing
import Testing
import Vocabulary

/// Walks a query through random maps, losses and moves, with messages of abandoned attempts under way.
@Suite struct QueryWalkTests {
    /// A cluster in which vBuckets have fixed rows, and nodes answer for what they are asked for.
    struct World {
        var random: SeededRandom
        var now: UInt64 = 0
        var map: QueryCoordination.ServingMap
        var rows: [[TestRow]]
        var nodes: [Responder] = []
        var wakes: [UInt64] = []
        var opened: UInt64?
        var found: [TestRow] = []

        struct Responder {
            let dispatch: QueryCoordination.Dispatch
            var rest: [TestRow]
            var hasStarted = false
            var credit = RowMerge.creditMax
        }

        init(seed: UInt64) {
            random = SeededRandom(seed: seed)
            let count = Int.random(in: 1...12, using: &random)
            rows = []
            for vBucket in 0..<count {
                let documents = Int.random(in: 0...5, using: &random)
                rows.append(
                    (0..<documents).map { number in
                        let key = StandInKeys.rowKey("\(number % 3)", id: "\(vBucket)-\(number)")
                        return TestRow(vBucket: UInt16(vBucket), key: key)
                    }
                )
            }
            map = QueryCoordination.ServingMap(revision: 1, actives: [])
            map.actives = (0..<count).map { _ in NodeNumber(.random(in: 1...4, using: &random)) }
            if chance(3) { map.actives[0] = nil }
        }

        mutating func chance(_ oneIn: Int) -> Bool {
            Int.random(in: 0..<oneIn, using: &random) == 0
        }

        mutating func carryOut(_ actions: [QueryCoordination.Action]) {
            for action in actions {
                switch action {
                case .send(let dispatch):
                    let rest = dispatch.vBuckets.flatMap { rows[Int($0.number)] }.sorted()
                    nodes.append(Responder(dispatch: dispatch, rest: rest))
                case .cancel(let node, let attempt):
                    // Often too late: replies are under way.
                    if !chance(4) { continue }
                    nodes.removeAll { $0.dispatch.node == node && $0.dispatch.attempt == attempt }
                case .open(let totalRows):
                    #expect(opened == nil, "a query opens once")
                    opened = totalRows
                case .wake(let time): wakes.append(time)
                }
            }
        }
    }

    @Test(arguments: 1...400 as ClosedRange<UInt64>)
    func everyVBucketIsCountedOnceOrNamed(seed: UInt64) throws {
        var world = World(seed: seed)
        // Some walks without trouble, most with some, a few with little else.
        let calm = [3, 6, 25, 1_000_000].randomElement(using: &world.random) ?? 25
        let terms = QueryCoordination.Terms(
            deadline: 2_000,
            merge: MergePlan(),
            previousMerge: world.chance(2) ? MergePlan() : nil
        )
        var coordination = QueryCoordination(terms, map: world.map)
        world.carryOut(coordination.begin(now: 0))
        var isDone = false
        for _ in 0..<20_000 where !isDone {
            switch Int.random(in: 0..<6, using: &world.random) {
            case 0: try passTime(&world, &coordination)
            case 1: if world.chance(calm) { changeMap(&world, &coordination) }
            case 2:
                switch coordination.next() {
                case .row(let row): world.found.append(TestRow(row))
                case .done: isDone = true
                case .group, .needsMore, nil: break
                }
                for node in coordination.removeCredits() {
                    for index in world.nodes.indices
                    where world.nodes[index].dispatch.node == node
                        && world.nodes[index].dispatch.attempt == coordination.attempt
                    {
                        world.nodes[index].credit += 1
                    }
                }
            default: try answer(&world, &coordination, calm)
            }
        }
        try #require(isDone, "seed \(seed): the query does not end")
        check(world, coordination, seed)
        #expect(coordination.restartCount <= QueryCoordination.restartsMax, "seed \(seed)")
    }

    private func passTime(_ world: inout World, _ coordination: inout QueryCoordination) throws {
        let next = world.wakes.filter { $0 > world.now }.min()
        world.now = world.chance(4) ? next ?? world.now + 1 : world.now + 1
        world.carryOut(coordination.advance(now: world.now))
    }

    private func changeMap(_ world: inout World, _ coordination: inout QueryCoordination) {
        world.map.revision += 1
        let vBucket = Int.random(in: world.map.actives.indices, using: &world.random)
        let node = NodeNumber(.random(in: 1...4, using: &world.random))
        world.map.actives[vBucket] = world.chance(5) ? nil : node
        world.carryOut(coordination.adopt(world.map, now: world.now))
    }

    /// Some responder, of this or an earlier attempt, sends its next message, or something happens
    /// to it.
    private func answer(
        _ world: inout World,
        _ coordination: inout QueryCoordination,
        _ calm: Int
    ) throws {
        guard let index = world.nodes.indices.randomElement(using: &world.random) else { return }
        let dispatch = world.nodes[index].dispatch
        var reply: QueryReply?
        if world.chance(calm) {
            world.nodes.remove(at: index)
            switch Int.random(in: 0..<4, using: &world.random) {
            case 0:
                for _ in 0..<3 { changeMap(&world, &coordination) }
                reply = .moved(world.map.revision)
            case 1: reply = .notReady(try QueryMessageTests.signature(1))
            case 2: reply = .failed("broken")
            default:
                let actions = coordination.lose(
                    dispatch.node,
                    attempt: dispatch.attempt,
                    because: "reset",
                    now: world.now
                )
                return world.carryOut(actions)
            }
        } else if !world.nodes[index].hasStarted {
            world.nodes[index].hasStarted = true
            let rows = UInt64(world.nodes[index].rest.count)
            reply = .start(QueryStart(indexRows: rows))
        } else if world.nodes[index].rest.isEmpty {
            world.nodes.remove(at: index)
            reply = .end
        } else if world.nodes[index].credit > 0 {
            world.nodes[index].credit -= 1
            let count = Int.random(in: 1...3, using: &world.random)
            reply = .rows(try RowBatch.of(Array(world.nodes[index].rest.prefix(count))))
            world.nodes[index].rest.removeFirst(min(count, world.nodes[index].rest.count))
        }
        guard let reply else { return }
        world.carryOut(
            coordination.handle(
                reply,
                from: dispatch.node,
                attempt: dispatch.attempt,
                now: world.now
            )
        )
    }

    private func check(_ world: World, _ coordination: QueryCoordination, _ seed: UInt64) {
        #expect(world.opened != nil, "seed \(seed)")
        #expect(world.found == world.found.sorted(), "seed \(seed)")
        // All nodes keep to the protocol, so a violation is a reply to another attempt.
        for failure in coordination.failures {
            if case .invalid(let why) = failure.cause { Issue.record("seed \(seed): \(why)") }
        }
        let named = Set(coordination.failures.flatMap(\.vBuckets).map(\.number))
        for (vBucket, rows) in world.rows.enumerated() {
            let found = world.found.filter { $0.vBucket == vBucket }
            #expect(Set(found.map(\.key)).count == found.count, "seed \(seed): a row twice")
            #expect(found.allSatisfy(rows.contains), "seed \(seed)")
            if named.contains(UInt16(vBucket)) { continue }
            #expect(found.count == rows.count, "seed \(seed): rows of vBucket \(vBucket)")
        }
        if named.isEmpty {
            #expect(world.opened == UInt64(world.found.count), "seed \(seed)")
        }
    }
}
