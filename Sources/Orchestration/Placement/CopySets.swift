/// Which nodes hold copies of which vBucket, before anybody asks which of them is active.
///
/// A set has as many places as a vBucket shall have copies; one that nobody has filled yet lies
/// nowhere, the place behind the last node.
struct CopySets: BalancedUnits {
    /// What a copy costs where there is none yet, and where there is an old one to build on.
    static let newCopyCost = 100
    static let formerCopyCost = 40
    /// Less than any copy: the one that is active should stay, its vBucket then changes no role.
    static let activeCopyGain = 1
    /// More than all copies there are: two copies in one group.
    static let sameGroupCost = 1_000_000

    let input: PlacementInput
    let copies: Int
    let bounds: [ClosedRange<Int>]
    /// By vBucket * copies.
    private var slots: [Int]
    private var vBucketsAt: [[Int]]
    /// By vBucket * nodes: what a copy there costs.
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

    /// What a copy on `node` costs for others that are in its group, `without` not counted.
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

    // MARK: Copies that lie nowhere

    /// Puts copies that lie nowhere on nodes with room, where that breaks no rule.
    ///
    /// Each costs one new copy, whatever is done, so the flow that follows finds nothing to undo;
    /// but here the pairs are seen: a node's replicas should spread over all others.
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

    /// The node with room that costs least, then crowds least, then is emptiest.
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

/// How many replicas of each node's actives each other node has.
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
