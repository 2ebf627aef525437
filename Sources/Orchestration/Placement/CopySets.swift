/// The assignment of copies to nodes, before active roles are assigned.
///
/// A vBucket has as many slots as it shall have copies. An unassigned slot is at the place
/// `nowhere`, behind the last node.
struct CopySets: BalancedUnits {
    /// The cost of a copy on a node without one, and on a node with an old copy to build on.
    static let newCopyCost = 100
    static let formerCopyCost = 40
    /// Prefers to keep the active copy, so that no role changes; less than the cost of any copy.
    static let activeCopyGain = 1
    /// The cost of two copies in one server group: more than that of all copies together.
    static let sameGroupCost = 1_000_000

    let input: PlacementInput
    let copies: Int
    let bounds: [ClosedRange<Int>]
    /// The place of each slot, by vBucket * copies + slot.
    private var slots: [Int]
    private var vBucketsAt: [[Int]]
    /// The cost of a copy, by vBucket * nodes + node.
    private let costs: [Int]

    init(_ input: PlacementInput) {
        let (vBuckets, nodes) = (input.vBucketCount, input.nodes.count)
        self.input = input
        copies = min(input.copies, nodes)
        let shares = PlacementShares.bounds(
            ofCopies: vBuckets,
            copies,
            groups: input.groups,
            weights: input.nodes.map(\.weight)
        )
        bounds = shares + [0...0]
        slots = [Int](repeating: nodes, count: vBuckets * copies)
        vBucketsAt = [[Int]](repeating: [], count: nodes + 1)
        var costs = [Int](repeating: Self.newCopyCost, count: vBuckets * nodes)
        for vBucket in 0..<vBuckets {
            for node in input.formers[vBucket] {
                costs[vBucket * nodes + node] = Self.formerCopyCost
            }
            for node in input.rows[vBucket] { costs[vBucket * nodes + node] = 0 }
            if let active = input.actives[vBucket] {
                costs[vBucket * nodes + active] = -Self.activeCopyGain
            }
            for (slot, node) in input.rows[vBucket].prefix(copies).enumerated() {
                slots[vBucket * copies + slot] = node
            }
            for slot in 0..<copies { vBucketsAt[slots[vBucket * copies + slot]].append(vBucket) }
        }
        self.costs = costs
    }

    var placeCount: Int { input.nodes.count + 1 }
    var nowhere: Int { input.nodes.count }

    func vBuckets(at place: Int) -> [Int] { vBucketsAt[place] }

    func places(of vBucket: Int) -> [Int] {
        Array(slots[vBucket * copies..<(vBucket + 1) * copies])
    }

    func isOn(_ node: Int, _ vBucket: Int) -> Bool {
        for slot in vBucket * copies..<(vBucket + 1) * copies where slots[slot] == node {
            return true
        }
        return false
    }

    func count(at place: Int) -> Int { vBucketsAt[place].count }

    func isNew(_ node: Int, _ vBucket: Int) -> Bool {
        costs[vBucket * input.nodes.count + node] == Self.newCopyCost
    }

    func cost(ofMoving vBucket: Int, from: Int, to: Int) -> Int? {
        if to == nowhere || from == to || isOn(to, vBucket) { return nil }
        let nodes = input.nodes.count
        let gained = costs[vBucket * nodes + to]
        guard from != nowhere else { return gained + groupCost(of: to, vBucket, without: nowhere) }
        return gained - costs[vBucket * nodes + from]
            + groupCost(of: to, vBucket, without: from)
            - groupCost(of: from, vBucket, without: from)
    }

    /// The cost of a copy on `node` for the vBucket's other copies in its group, except one at
    /// `without`.
    func groupCost(of node: Int, _ vBucket: Int, without: Int) -> Int {
        guard input.groupCount > 1 else { return 0 }
        var others = 0
        for slot in vBucket * copies..<(vBucket + 1) * copies {
            let other = slots[slot]
            if other == nowhere || other == without { continue }
            if input.groups[other] == input.groups[node] { others += 1 }
        }
        return others * Self.sameGroupCost
    }

    mutating func move(_ vBucket: Int, from: Int, to: Int) {
        let row = vBucket * copies..<(vBucket + 1) * copies
        guard let slot = slots[row].firstIndex(of: from),
            let place = vBucketsAt[from].firstIndex(of: vBucket)
        else { preconditionFailure("a copy can only be moved from where it is") }
        slots[slot] = to
        vBucketsAt[from].remove(at: place)
        vBucketsAt[to].append(vBucket)
    }

    // MARK: Unassigned copies

    /// Assigns unassigned copies to nodes with room, unless that would put two copies in one group.
    ///
    /// Every unassigned copy costs a new copy in any case, so the flow that follows has nothing to
    /// undo. Unlike the flow, this considers pairs of nodes: a node's replicas should spread over
    /// all others.
    mutating func fillEvenly() {
        let nodes = input.nodes.count
        var actives = input.rows.map(\.first)
        var activeCounts = [Int](repeating: 0, count: nodes)
        for case let node? in actives { activeCounts[node] += 1 }
        var pairs = PairCounts(nodes: nodes)
        for vBucket in 0..<input.vBucketCount {
            guard let active = actives[vBucket] else { continue }
            for place in places(of: vBucket) where place != nowhere && place != active {
                pairs.add(active, place, 1)
            }
        }
        for slot in 0..<copies {
            for vBucket in 0..<input.vBucketCount where isOn(nowhere, vBucket) {
                let isFirst = slot == 0 && actives[vBucket] == nil
                if slot == 0, !isFirst { continue }
                let chosen = roomiest(for: vBucket) { node in
                    if isFirst { return activeCounts[node] }
                    return actives[vBucket].map { pairs[$0, node] } ?? 0
                }
                guard let chosen else { continue }
                move(vBucket, from: nowhere, to: chosen)
                if isFirst {
                    actives[vBucket] = chosen
                    activeCounts[chosen] += 1
                } else if let active = actives[vBucket] {
                    pairs.add(active, chosen, 1)
                }
            }
        }
    }

    /// Among nodes with room: the cheapest, then the least crowded, then the emptiest; nil if there
    /// is none.
    private func roomiest(for vBucket: Int, crowding: (Int) -> Int) -> Int? {
        let nodes = input.nodes.count
        var best: (Int, Int, Int, Int)?
        var chosen: Int?
        for node in 0..<nodes where !isOn(node, vBucket) {
            let held = count(at: node)
            guard held < bounds[node].upperBound,
                groupCost(of: node, vBucket, without: nowhere) == 0
            else { continue }
            let weight = input.nodes[node].weight
            let isFull = held >= bounds[node].lowerBound ? 1 : 0
            let rank = (
                isFull, costs[vBucket * nodes + node], crowding(node) * input.weightMax / weight,
                held * input.weightMax / weight
            )
            if let best, rank >= best { continue }
            best = rank
            chosen = node
        }
        return chosen
    }
}

/// By pair of nodes: how many of the first node's active vBuckets have a replica on the second.
struct PairCounts {
    private let nodes: Int
    private var counts: [Int]

    init(nodes: Int) {
        self.nodes = nodes
        counts = [Int](repeating: 0, count: nodes * nodes)
    }

    subscript(active: Int, replica: Int) -> Int { counts[active * nodes + replica] }

    mutating func add(_ active: Int, _ replica: Int, _ number: Int) {
        counts[active * nodes + replica] += number
    }
}
