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
