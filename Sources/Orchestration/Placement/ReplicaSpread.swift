/// Exchanges new replicas between nodes, so that each node's replicas spread over all other nodes.
///
/// If a node fails, the nodes with its replicas share its load, so there should be many. Only
/// copies that have to be built anyway are exchanged, so this costs nothing.
struct ReplicaSpread {
    /// A replica that has to be built.
    private struct Replica {
        var vBucket: Int
        var node: Int
    }

    /// More rounds rarely find another exchange.
    private static let roundsMax = 4

    private var sets: CopySets
    private let actives: [Int]
    private var pairs: PairCounts

    init(_ sets: CopySets, actives: [Int]) {
        self.sets = sets
        self.actives = actives
        pairs = PairCounts(nodes: sets.input.nodes.count)
        for vBucket in actives.indices {
            for node in sets.places(of: vBucket) where node != actives[vBucket] {
                pairs.add(actives[vBucket], node, 1)
            }
        }
    }

    mutating func run() {
        var replicas: [Replica] = []
        for vBucket in actives.indices {
            for node in sets.places(of: vBucket)
            where node != actives[vBucket] && sets.isNew(node, vBucket) {
                replicas.append(Replica(vBucket: vBucket, node: node))
            }
        }
        for _ in 0..<Self.roundsMax {
            var isBetter = false
            for one in replicas.indices where isCrowded(replicas[one]) {
                var best = 0
                var chosen: Int?
                for other in replicas.indices {
                    let gain = gain(replicas[one], replicas[other])
                    if gain > best { (best, chosen) = (gain, other) }
                }
                guard let chosen else { continue }
                exchange(&replicas, one, chosen)
                isBetter = true
            }
            if !isBetter { return }
        }
    }

    /// Whether the replica's node has at least two more replicas of this active node than another
    /// node.
    private func isCrowded(_ replica: Replica) -> Bool {
        let active = actives[replica.vBucket]
        let here = pairs[active, replica.node]
        for node in sets.input.nodes.indices where node != active {
            if pairs[active, node] < here - 1 { return true }
        }
        return false
    }

    /// By how much an exchange reduces the sum of squares of all pairs; 0 if it is not allowed.
    private func gain(_ one: Replica, _ other: Replica) -> Int {
        let (a, b) = (actives[one.vBucket], actives[other.vBucket])
        if a == b || one.node == other.node { return 0 }
        let before = pairs[a, one.node] + pairs[b, other.node]
        let after = pairs[a, other.node] + pairs[b, one.node] + 2
        guard after < before, !sets.isOn(other.node, one.vBucket),
            !sets.isOn(one.node, other.vBucket), sets.isNew(other.node, one.vBucket),
            sets.isNew(one.node, other.vBucket)
        else { return 0 }
        let cost =
            sets.groupCost(of: other.node, one.vBucket, without: one.node)
            + sets.groupCost(of: one.node, other.vBucket, without: other.node)
            - sets.groupCost(of: one.node, one.vBucket, without: one.node)
            - sets.groupCost(of: other.node, other.vBucket, without: other.node)
        return cost == 0 ? before - after : 0
    }

    private mutating func exchange(_ replicas: inout [Replica], _ one: Int, _ other: Int) {
        let (first, second) = (replicas[one], replicas[other])
        let (a, b) = (actives[first.vBucket], actives[second.vBucket])
        pairs.add(a, first.node, -1)
        pairs.add(b, second.node, -1)
        pairs.add(a, second.node, 1)
        pairs.add(b, first.node, 1)
        sets.move(first.vBucket, from: first.node, to: second.node)
        sets.move(second.vBucket, from: second.node, to: first.node)
        replicas[one].node = second.node
        replicas[other].node = first.node
    }

    /// The chain: the active node, then kept copies in their present order, then new ones.
    func row(of vBucket: Int) -> [Int] {
        let active = actives[vBucket]
        let before = sets.input.rows[vBucket]
        let others = sets.places(of: vBucket).filter { $0 != active }
        let kept = before.filter { others.contains($0) }
        return [active] + kept + others.filter { !before.contains($0) }.sorted()
    }
}
