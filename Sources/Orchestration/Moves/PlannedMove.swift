package import Vocabulary

/// One vBucket on its way from a row to another.
///
/// What follows from the rows is kept: a schedule asks a thousand moves for it, again and again.
package struct PlannedMove: Hashable, Sendable {
    /// In the order in which moves of one rebalance start.
    package enum Kind: Int, Hashable, Comparable, Sendable {
        /// There is no copy left: the vBucket begins anew, empty.
        case creation
        /// Nothing is copied, only the roles change.
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
    /// Documents of the active copy, as far as known: what a build sends.
    package let items: UInt64
    /// Nodes that have no copy yet.
    package let builders: [NodeNumber]
    /// All that take part, each once.
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

    package var source: NodeNumber? { row.first }

    /// Nodes that will have none.
    package var leavers: [NodeNumber] { row.filter { !target.contains($0) } }

    package var takesOver: Bool { row.first != target.first }

    /// What it costs, in items: what is sent, and what any move takes.
    package var weight: UInt64 { items * UInt64(builders.count) + Limits.moveFixedWeight }
}
