package import Vocabulary

/// The target chains of a bucket, reached with the fewest new copies and role changes.
///
/// It first plans the sets: which copies each node holds. Then it plans the roles: which node of a
/// set is active. Both are flow problems with an optimal solution, and both balances are always
/// possible together: if every node holds its share of the copies, every node can be active for its
/// share of the vBuckets. Where a choice remains, new copies are exchanged so that each node's
/// replicas spread.
///
/// - Every node holds its share of the active copies and of all copies, rounded down or up.
/// - Of all such layouts, the plan has the fewest copies that share a group, then the fewest new
///   copies, then the fewest role changes.
/// - The same input yields the same plan on every node; planning again yields no move.
package struct RebalancePlan: Hashable, Sendable {
    /// By vBucket: the target chain, active first.
    ///
    /// Shorter than `copies` if there are fewer nodes than copies.
    package let targets: [[NodeNumber]]
    /// Copies to be built on nodes that have none of that vBucket.
    package let newCopyCount: Int
    /// vBuckets that get another active node.
    package let roleChangeCount: Int

    /// - Parameters:
    ///   - rows: By vBucket: the present chain, active first; empty if no copy is left.
    ///   - nodes: The nodes that shall hold copies; copies on all other nodes are removed.
    ///   - copies: Copies per vBucket.
    ///   - formers: By vBucket: nodes with an old copy to build on, the former active one first;
    ///     empty, or one entry per row.
    package init(
        rows: [[NodeNumber]],
        nodes: [PlacementNode],
        copies: Int,
        formers: [[NodeNumber]] = []
    ) {
        let input = PlacementInput(rows: rows, nodes: nodes, copies: copies, formers: formers)
        var sets = CopySets(input)
        sets.fillEvenly()
        var copyFlow = BalanceFlow(sets)
        copyFlow.run()
        var roleFlow = BalanceFlow(ActiveRoles(copyFlow.units))
        roleFlow.run()
        var spread = ReplicaSpread(copyFlow.units, actives: roleFlow.units.actives)
        spread.run()

        let numbers = input.nodes.map(\.number)
        targets = rows.indices.map { vBucket in
            spread.row(of: vBucket).map { numbers[$0] }
        }
        newCopyCount = zip(rows, targets).reduce(0) { sum, row in
            sum + row.1.count { !row.0.contains($0) }
        }
        roleChangeCount = zip(rows, targets).count { $0.first != $1.first }
    }

    /// The numbers of the vBuckets whose chain in `rows` differs from its target.
    package func changes(from rows: [[NodeNumber]]) -> [Int] {
        rows.indices.filter { rows[$0] != targets[$0] }
    }
}

/// The chains of a new bucket.
package enum InitialPlacement {
    /// The chains by vBucket, active first; shorter than `copies` if there are fewer nodes.
    package static func rows(
        vBuckets: Int,
        nodes: [PlacementNode],
        copies: Int
    ) -> [[NodeNumber]] {
        let none = [[NodeNumber]](repeating: [], count: vBuckets)
        return RebalancePlan(rows: none, nodes: nodes, copies: copies).targets
    }
}

/// The input of a plan; nodes are indexes into `nodes`, which is sorted by number.
struct PlacementInput: Sendable {
    let nodes: [PlacementNode]
    let copies: Int
    let weightMax: Int
    let groups: [Int]
    let groupCount: Int
    /// By vBucket: the nodes of its chain that are kept, in the chain's order.
    let rows: [[Int]]
    let formers: [[Int]]
    /// By vBucket: the active node; nil if it is not kept.
    let actives: [Int?]

    var vBucketCount: Int { rows.count }

    init(rows: [[NodeNumber]], nodes: [PlacementNode], copies: Int, formers: [[NodeNumber]]) {
        precondition(!nodes.isEmpty && copies > 0, "copies are held by nodes")
        precondition(formers.isEmpty || formers.count == rows.count, "a former row per vBucket")
        let sorted = nodes.sorted { $0.number < $1.number }
        let places = Dictionary(
            uniqueKeysWithValues: sorted.enumerated().map { ($1.number, $0) }
        )
        let names = Set(sorted.map(\.group)).sorted()
        let kept = rows.map { $0.compactMap { places[$0] } }
        self.nodes = sorted
        self.copies = copies
        weightMax = sorted.reduce(1) { max($0, $1.weight) }
        groups = sorted.map { node in names.firstIndex(of: node.group) ?? 0 }
        groupCount = names.count
        self.rows = kept
        self.formers = rows.indices.map { vBucket in
            guard !formers.isEmpty else { return [] }
            return formers[vBucket].compactMap { places[$0] }
                .filter { !kept[vBucket].contains($0) }
        }
        actives = rows.map { row in row.first.flatMap { places[$0] } }
    }
}

/// The assignment of active roles, once the nodes of each vBucket's copies are fixed.
struct ActiveRoles: BalancedUnits {
    /// The cost of another active node than before; slightly more if its copy has to be built
    /// first, slightly less if the node was active before it was failed over.
    private static let changeCost = 10
    private static let buildCost = 1
    private static let returnGain = 5

    let sets: CopySets
    let bounds: [ClosedRange<Int>]
    private(set) var actives: [Int]
    private var vBucketsAt: [[Int]]

    init(_ sets: CopySets) {
        let input = sets.input
        self.sets = sets
        bounds = PlacementShares.bounds(
            of: input.vBucketCount,
            nodeMax: input.vBucketCount,
            weights: input.nodes.map(\.weight)
        )
        actives = []
        vBucketsAt = [[Int]](repeating: [], count: input.nodes.count)
        for vBucket in 0..<input.vBucketCount {
            let places = sets.places(of: vBucket)
            var chosen = places[0]
            if let active = input.actives[vBucket], places.contains(active) {
                chosen = active
            } else {
                for place in places.dropFirst() {
                    let one = (role(vBucket, place), vBucketsAt[place].count)
                    if one < (role(vBucket, chosen), vBucketsAt[chosen].count) { chosen = place }
                }
            }
            actives.append(chosen)
            vBucketsAt[chosen].append(vBucket)
        }
    }

    var placeCount: Int { sets.input.nodes.count }

    func vBuckets(at place: Int) -> [Int] { vBucketsAt[place] }

    func places(of vBucket: Int) -> [Int] { [actives[vBucket]] }

    func cost(ofMoving vBucket: Int, from: Int, to: Int) -> Int? {
        guard from != to, sets.isOn(to, vBucket) else { return nil }
        return role(vBucket, to) - role(vBucket, from)
    }

    mutating func move(_ vBucket: Int, from: Int, to: Int) {
        guard let place = vBucketsAt[from].firstIndex(of: vBucket) else {
            preconditionFailure("only the active node can hand over")
        }
        vBucketsAt[from].remove(at: place)
        vBucketsAt[to].append(vBucket)
        actives[vBucket] = to
    }

    /// The cost of `node` as the active one; replicas in the same server group cost most.
    private func role(_ vBucket: Int, _ node: Int) -> Int {
        let group = sets.groupCost(of: node, vBucket, without: node)
        if sets.input.actives[vBucket] == node { return group }
        let isNew = !sets.input.rows[vBucket].contains(node)
        let wasActive = sets.input.formers[vBucket].first == node
        return group + Self.changeCost + (isNew ? Self.buildCost : 0)
            - (wasActive ? Self.returnGain : 0)
    }
}
