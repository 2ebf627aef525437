package import Vocabulary

/// A node that shall hold copies, as input of a plan.
package struct PlacementNode: Hashable, Sendable {
    package var number: NodeNumber
    /// The name of its server group; empty if there are no groups.
    package var group: String
    /// Its share of the copies, relative to the other nodes'.
    package var weight: Int

    package init(_ number: NodeNumber, group: String = "", weight: Int = 1) {
        precondition(weight > 0, "a node that is kept holds something")
        self.number = number
        self.group = group
        self.weight = weight
    }
}

/// The number of units that each node should hold: its share, rounded down or up.
///
/// - The sum of the lower bounds is at most the number of units, that of the upper bounds at least.
enum PlacementShares {
    /// - Parameters:
    ///   - units: The number of units to distribute.
    ///   - nodeMax: The most units that a node can hold: one copy of each vBucket.
    ///   - weights: The weight of each node.
    /// - Returns: The bounds of each node.
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
            // Nodes whose share exceeds `nodeMax` hold that; the other nodes share the rest.
            for node in full { bounds[node] = nodeMax...nodeMax }
            left -= full.count * nodeMax
            open.removeAll { full.contains($0) }
        }
        return bounds
    }

    /// The bounds for copies if a server group holds at most one copy of each vBucket.
    ///
    /// A group whose share exceeds that holds one copy of each; the other groups share the rest. If
    /// there are fewer groups than copies, groups are ignored.
    ///
    /// - Parameters:
    ///   - vBuckets: The number of vBuckets.
    ///   - copies: Copies per vBucket.
    ///   - groups: The number of each node's group, from 0 on.
    ///   - weights: The weight of each node.
    /// - Returns: The bounds of each node.
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
