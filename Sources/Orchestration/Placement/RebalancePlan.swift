package import Vocabulary

/// What the cluster should look like, and the cheapest way to get there.
///
/// First the sets: how many copies each node holds, and which; then the roles: who of a set is
/// active. Both are flows whose result is the best there is, and both bounds can always be kept
/// together: when every node holds its share of the copies, it can be active for its share of them.
/// Where both still leave a choice, the new copies are dealt so that each node's replicas spread.
///
/// - Every node holds its share of the actives and of the copies, rounded down or up.
/// - Of all such layouts it makes the fewest copies in the same group as others, then the fewest
///   new copies; of the roles these allow, the fewest changes.
/// - The same input gives the same plan on every node; planning again gives no move.
package struct RebalancePlan: Hashable, Sendable {
    /// By vBucket: the chain it shall have, active first.
    ///
    /// Shorter than wanted where there are fewer nodes than copies.
    package let targets: [[NodeNumber]]
    /// Copies on nodes that have none of that vBucket.
    package let newCopyCount: Int
    /// vBuckets that get another active node.
    package let roleChangeCount: Int

    /// - Parameters:
    ///   - rows: By vBucket: the present chain, active first; empty where no copy is left.
    ///   - nodes: Nodes that are to hold copies; whatever else rows name is left.
    ///   - copies: How many each vBucket should have.
    ///   - formers: By vBucket: nodes with an old copy to build on, first the one that used to be
    ///     active; empty, or as many as rows.
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

    /// The vBuckets that have to move, with what is to be done.
    package func changes(from rows: [[NodeNumber]]) -> [Int] {
        rows.indices.filter { rows[$0] != targets[$0] }
    }
}

/// The rows of a bucket that is being made.
package enum InitialPlacement {
    package static func rows(
        vBuckets: Int,
        nodes: [PlacementNode],
        copies: Int
    ) -> [[NodeNumber]] {
        let none = [[NodeNumber]](repeating: [], count: vBuckets)
        return RebalancePlan(rows: none, nodes: nodes, copies: copies).targets
    }
}

/// What a plan is made from, with nodes by their place in the order of numbers.
struct PlacementInput: Sendable {
    let nodes: [PlacementNode]
    let copies: Int
    let weightMax: Int
    let groups: [Int]
    let groupCount: Int
    /// The nodes of each row that are kept, in the row's order.
    let rows: [[Int]]
    let formers: [[Int]]
    /// The active node of each vBucket, where it is kept.
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
