import Orchestration
import Testing
import Vocabulary

/// Rebalance plans: optimal if all layouts can be enumerated, and always with their invariants.
@Suite struct PlacementTests {
    private func nodes(_ numbers: ClosedRange<UInt16>) -> [PlacementNode] {
        numbers.map { PlacementNode(NodeNumber($0)) }
    }

    private func rows(_ rows: [[UInt16]]) -> [[NodeNumber]] {
        rows.map { $0.map { NodeNumber($0) } }
    }

    // MARK: Examples

    @Test func singleNodeHoldsAllActiveCopiesAndNoReplica() {
        let made = InitialPlacement.rows(vBuckets: 4, nodes: nodes(1...1), copies: 2)
        #expect(made == rows([[1], [1], [1], [1]]))
    }

    @Test func secondNodeGetsHalfOfTheActivesAndAllReplicas() {
        let before = rows([[1], [1], [1], [1]])
        let plan = RebalancePlan(rows: before, nodes: nodes(1...2), copies: 2)
        #expect(plan.newCopyCount == 4)
        #expect(plan.roleChangeCount == 2)
        #expect(plan.targets.map(\.count) == [2, 2, 2, 2])
    }

    @Test func layoutWithinOneOfBalanceIsKept() {
        let before = rows([[1, 2], [2, 1], [3, 1], [1, 3], [2, 3]])
        let plan = RebalancePlan(rows: before, nodes: nodes(1...3), copies: 2)
        #expect(plan.targets == before)
        #expect(plan.changes(from: before).isEmpty)
    }

    @Test func swapPutsTheNewNodeInTheOldNodesPlaces() {
        let before = InitialPlacement.rows(vBuckets: 64, nodes: nodes(1...4), copies: 2)
        let kept = nodes(1...5).filter { $0.number != NodeNumber(2) }
        let plan = RebalancePlan(rows: before, nodes: kept, copies: 2)
        let expected = before.map { row in
            row.map { $0 == NodeNumber(2) ? NodeNumber(5) : $0 }
        }
        #expect(plan.newCopyCount == 32)
        #expect(plan.targets.map(Set.init) == expected.map(Set.init))
    }

    @Test func rolesAreSwappedBackAfterAFailoverWithoutNewCopies() {
        // Node 1 was failed over: node 2 has all active copies, node 1 all replicas.
        let before = rows([[2, 1], [2, 1], [2, 1], [2, 1]])
        let plan = RebalancePlan(rows: before, nodes: nodes(1...2), copies: 2)
        #expect(plan.newCopyCount == 0)
        #expect(plan.roleChangeCount == 2)
    }

    @Test func loweredReplicasOnlyDropCopies() {
        let before = InitialPlacement.rows(vBuckets: 64, nodes: nodes(1...4), copies: 3)
        let plan = RebalancePlan(rows: before, nodes: nodes(1...4), copies: 2)
        #expect(plan.newCopyCount == 0)
        #expect(plan.targets.allSatisfy { $0.count == 2 })
    }

    @Test func returnedNodeGetsItsFormerCopies() {
        let before = InitialPlacement.rows(vBuckets: 64, nodes: nodes(1...3), copies: 2)
        let without = before.map { $0.filter { $0 != NodeNumber(3) } }
        let formers = before.map { $0.contains(NodeNumber(3)) ? [NodeNumber(3)] : [] }
        let plan = RebalancePlan(rows: without, nodes: nodes(1...3), copies: 2, formers: formers)
        #expect(plan.targets.map(Set.init) == before.map(Set.init))
    }

    @Test func copiesAreProportionalToNodeWeight() {
        let nodes = [
            PlacementNode(NodeNumber(1), weight: 2), PlacementNode(NodeNumber(2)),
            PlacementNode(NodeNumber(3)), PlacementNode(NodeNumber(4)),
        ]
        let made = InitialPlacement.rows(vBuckets: 100, nodes: nodes, copies: 2)
        let layout = Layout(made)
        #expect([1, 2, 3, 4].map { layout.copies[NodeNumber($0)] } == [80, 40, 40, 40])
        #expect([1, 2, 3, 4].map { layout.actives[NodeNumber($0)] } == [40, 20, 20, 20])
    }

    @Test func newServerGroupsSeparateTheCopies() {
        let before = InitialPlacement.rows(vBuckets: 64, nodes: nodes(1...4), copies: 2)
        let grouped = nodes(1...4).map {
            PlacementNode($0.number, group: $0.number.value < 3 ? "left" : "right")
        }
        #expect(Layout(before).sameGroup(grouped) > 0)
        let plan = RebalancePlan(rows: before, nodes: grouped, copies: 2)
        #expect(Layout(plan.targets).sameGroup(grouped) == 0)
        #expect(plan.newCopyCount == Layout(before).sameGroup(grouped))
    }

    // MARK: Against all layouts

    /// Every plan of a small cluster is balanced and has as few new copies as any balanced one.
    @Test(arguments: 0..<8) func planHasTheFewestNewCopies(_ chunk: UInt64) {
        for seed in chunk * 50..<chunk * 50 + 50 {
            var dice = Dice(seed)
            let vBuckets = 1 + dice.roll(8)
            let count = 1 + dice.roll(4)
            let copies = 1 + dice.roll(3)
            let before = dice.rows(vBuckets, of: 5, upTo: 3)
            let plan = RebalancePlan(
                rows: before,
                nodes: nodes(1...UInt16(count)),
                copies: copies
            )
            let best = Exhaustive(rows: before, nodes: count, copies: copies).best
            #expect(plan.newCopyCount == best.newCopies, "seed \(seed)")
            // Roles are planned after the sets, so sometimes one role change more than the minimum
            // is needed.
            #expect(plan.roleChangeCount <= best.roleChanges + 1, "seed \(seed)")
            expectBalanced(plan.targets, nodes(1...UInt16(count)), copies, "seed \(seed)")
        }
    }

    // MARK: By seeds

    @Test(arguments: 0..<24) func plansOfAnySizeKeepTheirInvariants(_ seed: UInt64) {
        var dice = Dice(seed &+ 1_000)
        let vBuckets = [64, 128, 256, 1_024][dice.roll(4)]
        let copies = 1 + dice.roll(4)
        var members = nodes(1...UInt16(1 + dice.roll(seed % 4 == 0 ? 100 : 12)))
        var present = InitialPlacement.rows(vBuckets: vBuckets, nodes: members, copies: copies)
        expectBalanced(present, members, copies, "seed \(seed), made")
        for step in 0..<3 {
            let before = members
            // Some nodes leave, some join.
            members.removeAll { _ in dice.roll(6) == 0 }
            let first = (before.last?.number.value ?? 0) + 1
            members += nodes(first...first + UInt16(dice.roll(4)))
            let plan = RebalancePlan(rows: present, nodes: members, copies: copies)
            let place = "seed \(seed), step \(step)"
            expectBalanced(plan.targets, members, copies, place)
            let least = leastNewCopies(present, members, copies)
            #expect(plan.newCopyCount >= least, "\(place)")
            #expect(plan.newCopyCount <= least, "\(place): \(plan.newCopyCount) of \(least)")
            let again = RebalancePlan(rows: plan.targets, nodes: members, copies: copies)
            #expect(again.targets == plan.targets, "\(place)")
            present = plan.targets
        }
    }

    @Test(arguments: 0..<12) func equalServerGroupsNeverHoldTwoCopies(_ seed: UInt64) {
        var dice = Dice(seed &+ 5_000)
        let groups = 2 + dice.roll(3)
        let each = 1 + dice.roll(5)
        let copies = 2 + dice.roll(min(3, groups - 1))
        let members = (0..<groups * each).map {
            PlacementNode(NodeNumber(UInt16(1 + $0)), group: "rack \($0 % groups)")
        }
        let made = InitialPlacement.rows(vBuckets: 256, nodes: members, copies: copies)
        if copies <= groups { #expect(Layout(made).sameGroup(members) == 0, "seed \(seed)") }
        expectBalanced(made, members, copies, "seed \(seed)")
        // One node of each group leaves.
        let fewer = Array(members.dropLast(each > 1 ? groups : 0))
        let plan = RebalancePlan(rows: made, nodes: fewer, copies: copies)
        if copies <= groups {
            #expect(Layout(plan.targets).sameGroup(fewer) == 0, "seed \(seed)")
        }
        let again = RebalancePlan(rows: plan.targets, nodes: fewer, copies: copies)
        #expect(again.targets == plan.targets, "seed \(seed)")
    }

    /// Separation by group has priority over an even load: nodes of the smaller group hold more.
    @Test(arguments: [(3, 1), (4, 2), (1, 5), (6, 1)])
    func unequalServerGroupsHoldOneCopyEach(_ left: Int, _ right: Int) {
        let members = (1...left + right).map {
            PlacementNode(NodeNumber(UInt16($0)), group: $0 <= left ? "left" : "right")
        }
        let made = InitialPlacement.rows(vBuckets: 128, nodes: members, copies: 2)
        #expect(Layout(made).sameGroup(members) == 0)
        let before = InitialPlacement.rows(vBuckets: 128, nodes: nodes(1...3), copies: 2)
        let plan = RebalancePlan(rows: before, nodes: members, copies: 2)
        #expect(Layout(plan.targets).sameGroup(members) == 0)
        // Within a group all nodes hold equally many copies, and all nodes are active for equally
        // many.
        for group in [members.prefix(left), members.suffix(right)] {
            let held = group.map { Layout(plan.targets).copies[$0.number] ?? 0 }
            #expect((held.max() ?? 0) - (held.min() ?? 0) <= 1, "\(held)")
        }
        let serve = members.map { Layout(plan.targets).actives[$0.number] ?? 0 }
        #expect((serve.max() ?? 0) - (serve.min() ?? 0) <= 1, "\(serve)")
        let again = RebalancePlan(rows: plan.targets, nodes: members, copies: 2)
        #expect(again.targets == plan.targets)
    }

    @Test(arguments: [(3, 2), (4, 2), (5, 3), (10, 2), (10, 3), (20, 2)])
    func replicasOfANodeSpreadOverAllOtherNodes(_ count: UInt16, _ copies: Int) {
        let members = nodes(1...count)
        let made = InitialPlacement.rows(vBuckets: 1_024, nodes: members, copies: copies)
        #expect(Layout(made).unevennessOfPairs(members) <= 2)
        // The same holds after a node left.
        let plan = RebalancePlan(rows: made, nodes: Array(members.dropLast()), copies: copies)
        #expect(Layout(plan.targets).unevennessOfPairs(Array(members.dropLast())) <= 14)
    }

    @Test func planDoesNotDependOnTheOrderOfNodes() {
        let members = nodes(1...7)
        let made = InitialPlacement.rows(vBuckets: 128, nodes: members, copies: 3)
        let more = nodes(2...9)
        let one = RebalancePlan(rows: made, nodes: more, copies: 3)
        let other = RebalancePlan(rows: made, nodes: more.reversed(), copies: 3)
        #expect(one == other)
    }

    // MARK: Expectations

    private func expectBalanced(
        _ rows: [[NodeNumber]],
        _ members: [PlacementNode],
        _ copies: Int,
        _ place: String
    ) {
        let wanted = min(copies, members.count)
        let layout = Layout(rows)
        for row in rows where row.count != wanted || Set(row).count != wanted {
            Issue.record("\(place): \(row)")
        }
        let known = Set(members.map(\.number))
        #expect(layout.copies.keys.allSatisfy { known.contains($0) }, "\(place)")
        for (held, units) in [(layout.actives, rows.count), (layout.copies, rows.count * wanted)] {
            let counts = members.map { held[$0.number] ?? 0 }
            #expect(counts.allSatisfy { $0 >= units / members.count }, "\(place): \(counts)")
            let most = (units + members.count - 1) / members.count
            #expect(counts.allSatisfy { $0 <= most }, "\(place): \(counts)")
        }
    }

    /// The lower bound of new copies: empty slots, and each node's missing or excess copies.
    private func leastNewCopies(
        _ rows: [[NodeNumber]],
        _ members: [PlacementNode],
        _ copies: Int
    ) -> Int {
        let wanted = min(copies, members.count)
        let known = Set(members.map(\.number))
        let kept = rows.map { $0.filter { known.contains($0) } }
        let layout = Layout(kept)
        let units = rows.count * wanted
        let (least, most) = (units / members.count, (units + members.count - 1) / members.count)
        var short = 0
        var over = kept.reduce(0) { $0 + max(0, wanted - $1.count) }
        for member in members {
            let held = layout.copies[member.number] ?? 0
            short += max(0, least - held)
            over += max(0, held - most)
        }
        return max(short, over)
    }
}

/// The counts of a layout.
private struct Layout {
    var actives: [NodeNumber: Int] = [:]
    var copies: [NodeNumber: Int] = [:]
    var pairs: [[NodeNumber]: Int] = [:]
    private let rows: [[NodeNumber]]

    init(_ rows: [[NodeNumber]]) {
        self.rows = rows
        for row in rows {
            for node in row { copies[node, default: 0] += 1 }
            guard let active = row.first else { continue }
            actives[active, default: 0] += 1
            for node in row.dropFirst() { pairs[[active, node], default: 0] += 1 }
        }
    }

    /// The number of copies whose group has another copy of the same vBucket.
    func sameGroup(_ members: [PlacementNode]) -> Int {
        let groups = Dictionary(uniqueKeysWithValues: members.map { ($0.number, $0.group) })
        return rows.reduce(0) { $0 + $1.count - Set($1.map { groups[$0] }).count }
    }

    /// The largest difference between the replicas that two nodes have of one node's active
    /// vBuckets.
    func unevennessOfPairs(_ members: [PlacementNode]) -> Int {
        members.reduce(0) { worst, active in
            let held = members.filter { $0 != active }
                .map { pairs[[active.number, $0.number]] ?? 0 }
            guard let most = held.max(), let least = held.min() else { return worst }
            return max(worst, most - least)
        }
    }
}

/// Enumerates all balanced layouts of a small bucket with their costs.
private struct Exhaustive {
    struct Cost: Comparable {
        var newCopies: Int
        var roleChanges: Int

        static func < (one: Cost, other: Cost) -> Bool {
            (one.newCopies, one.roleChanges) < (other.newCopies, other.roleChanges)
        }
    }

    let best: Cost

    init(rows: [[NodeNumber]], nodes: Int, copies: Int) {
        let wanted = min(copies, nodes)
        var choices: [[Int]] = [[]]
        // The active node first, the replicas in order.
        for slot in 0..<wanted {
            choices = choices.flatMap { row in
                (0..<nodes).filter { node in
                    !row.contains(node) && (slot < 2 || node > row[slot - 1])
                }.map { row + [$0] }
            }
        }
        let units = (actives: rows.count, copies: rows.count * wanted)
        var states: [[Int]: Cost] = [
            [Int](repeating: 0, count: 2 * nodes): Cost(newCopies: 0, roleChanges: 0)
        ]
        for row in rows {
            let before = row.map { Int($0.value) - 1 }
            var next: [[Int]: Cost] = [:]
            for (state, cost) in states {
                for choice in choices {
                    var held = state
                    held[choice[0]] += 1
                    for node in choice { held[nodes + node] += 1 }
                    let isTooMuch = (0..<nodes).contains {
                        held[$0] > (units.actives + nodes - 1) / nodes
                            || held[nodes + $0] > (units.copies + nodes - 1) / nodes
                    }
                    if isTooMuch { continue }
                    let made = Cost(
                        newCopies: cost.newCopies + choice.count { !before.contains($0) },
                        roleChanges: cost.roleChanges + (before.first == choice[0] ? 0 : 1)
                    )
                    if let known = next[held], known <= made { continue }
                    next[held] = made
                }
            }
            states = next
        }
        let balanced = states.filter { held, _ in
            (0..<nodes).allSatisfy {
                held[$0] >= units.actives / nodes && held[nodes + $0] >= units.copies / nodes
            }
        }
        best = balanced.values.min() ?? Cost(newCopies: .max, roleChanges: .max)
    }
}

/// Dice with a seed.
struct Dice {
    private var state: UInt64

    init(_ seed: UInt64) {
        state = seed &* 0x9e37_79b9_7f4a_7c15 | 1
    }

    /// 0 up to, not including, `sides`.
    mutating func roll(_ sides: Int) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int((state >> 33) % UInt64(sides))
    }

    mutating func rows(_ count: Int, of nodes: Int, upTo copies: Int) -> [[NodeNumber]] {
        (0..<count).map { _ in
            var row: [NodeNumber] = []
            for _ in 0..<roll(copies + 1) {
                let node = NodeNumber(UInt16(1 + roll(nodes)))
                if !row.contains(node) { row.append(node) }
            }
            return row
        }
    }
}
