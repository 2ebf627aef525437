package import Vocabulary

/// A node that is to hold copies, as far as a plan is concerned.
package struct PlacementNode: Hashable, Sendable {
    package var number: NodeNumber
    /// Nodes that fail together, like a rack; empty where nobody named groups.
    package var group: String
    /// Its share of the copies, compared with the other nodes'.
    package var weight: Int

    package init(_ number: NodeNumber, group: String = "", weight: Int = 1) {
        precondition(weight > 0, "a node that is kept holds something")
        self.number = number
        self.group = group
        self.weight = weight
    }
}

/// How many units each node should hold: its share, rounded down or up.
///
/// - The lower bounds together are no more than there are units, the upper ones no fewer.
enum PlacementShares {
    /// - Parameters:
    ///   - units: What is to be dealt out.
    ///   - nodeMax: More than so many no node can hold: one copy of each vBucket.
    ///   - weights: A weight per node.
    /// - Returns: Bounds per node.
    static func bounds(of units: Int, nodeMax: Int, weights: [Int]) -> [ClosedRange<Int>] {
        var bounds = [ClosedRange<Int>](repeating: 0...0, count: weights.count)
        var open = Array(weights.indices)
        var left = units
        while !open.isEmpty {
            let weight = open.reduce(0) { $0 + weights[$1] }
            let full = open.filter { left * weights[$0] >= nodeMax * weight }
            guard !full.isEmpty else {
                for node in open {
                    let share = left * weights[node]
                    bounds[node] = share / weight...(share + weight - 1) / weight
                }
                break
            }
            // Nodes that are too heavy hold everything, the others deal out the rest.
            for node in full { bounds[node] = nodeMax...nodeMax }
            left -= full.count * nodeMax
            open.removeAll { full.contains($0) }
        }
        return bounds
    }

    /// The same of copies, of which a group holds one of each vBucket at most, where groups allow it:
    /// what a group is too small or too large for the others hold.
    ///
    /// - Parameters:
    ///   - vBuckets: How many there are.
    ///   - copies: Of each.
    ///   - groups: The number of each node's group, from 0 on.
    ///   - weights: A weight per node.
    /// - Returns: Bounds per node.
    static func bounds(
        ofCopies vBuckets: Int,
        _ copies: Int,
        groups: [Int],
        weights: [Int]
    ) -> [ClosedRange<Int>] {
        let count = (groups.max() ?? 0) + 1
        guard count > 1, copies <= count else {
            return bounds(of: vBuckets * copies, nodeMax: vBuckets, weights: weights)
        }
        var found = [ClosedRange<Int>](repeating: 0...0, count: weights.count)
        var open = Array(weights.indices)
        var left = vBuckets * copies
        while true {
            let weight = open.reduce(0) { $0 + weights[$1] }
            let full = (0..<count).filter { group in
                let own = open.filter { groups[$0] == group }.reduce(0) { $0 + weights[$1] }
                return left * own > vBuckets * weight
            }
            guard !full.isEmpty else { break }
            for group in full {
                let members = open.filter { groups[$0] == group }
                let own = bounds(
                    of: vBuckets,
                    nodeMax: vBuckets,
                    weights: members.map { weights[$0] }
                )
                for (place, member) in members.enumerated() { found[member] = own[place] }
            }
            left -= full.count * vBuckets
            open.removeAll { full.contains(groups[$0]) }
        }
        let rest = bounds(of: left, nodeMax: vBuckets, weights: open.map { weights[$0] })
        for (place, node) in open.enumerated() { found[node] = rest[place] }
        return found
    }
}
