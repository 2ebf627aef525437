package import Vocabulary

/// The move of one vBucket from its present chain to a target chain.
///
/// Values derived from the chains are stored, because a schedule reads them from a thousand moves
/// again and again.
package struct PlannedMove: Hashable, Sendable {
    /// The order of the cases is the order in which moves of a rebalance start.
    package enum Kind: Int, Hashable, Comparable, Sendable {
        /// No copy is left: the vBucket is recreated, empty.
        case creation
        /// No copy is built; another node becomes active.
        case roleSwap
        /// Another node becomes active, and copies are built.
        case active
        /// The active node stays.
        case replica

        package static func < (one: Kind, other: Kind) -> Bool { one.rawValue < other.rawValue }
    }

    package let vBucket: VBucketID
    /// The present chain, active first.
    package let row: [NodeNumber]
    package let target: [NodeNumber]
    /// Documents of the active copy as last reported: a build sends that many.
    package let items: UInt64
    /// Nodes of the target without a copy yet.
    package let builders: [NodeNumber]
    /// All nodes of both chains, each once.
    package let nodes: [NodeNumber]
    package let kind: Kind

    package init(
        _ vBucket: VBucketID,
        from row: [NodeNumber],
        to target: [NodeNumber],
        items: UInt64 = 0
    ) {
        precondition(!target.isEmpty, "a move leads to a copy")
        self.vBucket = vBucket
        self.row = row
        self.target = target
        self.items = items
        let builders = target.filter { !row.contains($0) }
        self.builders = builders
        nodes = row + builders
        kind =
            if row.isEmpty {
                .creation
            } else if row.first == target.first {
                .replica
            } else {
                builders.isEmpty ? .roleSwap : .active
            }
    }

    /// The active node; nil if no copy is left.
    package var source: NodeNumber? { row.first }

    /// Nodes that drop their copy.
    package var leavers: [NodeNumber] { row.filter { !target.contains($0) } }

    package var takesOver: Bool { row.first != target.first }

    /// The cost of the move in items: the items to send, plus a fixed cost per move.
    package var weight: UInt64 { items * UInt64(builders.count) + Limits.moveFixedWeight }
}
