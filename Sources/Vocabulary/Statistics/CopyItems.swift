package import Bytes

/// The state and the number of documents of each copy of a bucket on one node.
///
/// Nodes send their statistics at different moments. If each node sent only its sum, the documents of a
/// vBucket that changes its active node would be in the sums of both nodes until the next exchange, or in
/// none.
package struct CopyItems: Hashable, Sendable {
    /// By vBucket number: 0 without a copy, else 8 * the number of documents + the state, from 1 to 4.
    private var entries: [UInt64] = []

    package init() {}

    /// The number of documents of a copy; nil if the node has no copy of the vBucket.
    func items(of vBucket: Int) -> UInt64? {
        guard vBucket < entries.count, entries[vBucket] > 0 else { return nil }
        return entries[vBucket] >> 3
    }

    /// Whether the node has an active copy of the vBucket.
    func isActive(_ vBucket: Int) -> Bool {
        vBucket < entries.count && Self.isCopy(entries[vBucket], .active)
    }

    private static func isCopy(_ entry: UInt64, _ state: VBucketState) -> Bool {
        entry & 7 == UInt64(state.rawValue)
    }

    /// The number of copies in a state.
    package func count(_ state: VBucketState) -> UInt64 {
        UInt64(entries.count { Self.isCopy($0, state) })
    }

    /// The documents of all copies in a state.
    package func items(_ state: VBucketState) -> UInt64 {
        entries.reduce(0) { $0 &+ (Self.isCopy($1, state) ? $1 >> 3 : 0) }
    }

    /// Adds a copy.
    package mutating func add(_ vBucket: Int, items: UInt64, _ state: VBucketState) {
        while entries.count <= vBucket { entries.append(0) }
        entries[vBucket] = items << 3 | UInt64(state.rawValue)
    }

    /// The documents of a bucket by node, each counted once.
    ///
    /// The documents of a vBucket are those of the active copy on its active node by the cluster state,
    /// else those of an active copy on another node, which has handed over since its report. If no
    /// report has an active copy, the handover was between two reports, and the largest number counts.
    ///
    /// - Parameters:
    ///   - activeNodes: The active node of each vBucket, by number; nil without one.
    ///   - reports: The copies of each node with current statistics, also of those without a copy. A
    ///     vBucket whose active node does not report counts only if it is active elsewhere.
    ///   - last: The last known number of each vBucket, which this updates; empty at first.
    /// - Returns: The number of documents of each node; their sum is that of the bucket.
    package static func count(
        activeNodes: [NodeNumber?],
        _ reports: [(node: NodeNumber, copies: CopyItems)],
        last: inout [UInt64]
    ) -> [NodeNumber: UInt64] {
        if last.count != activeNodes.count { last = activeNodes.map { _ in 0 } }
        var sums = [UInt64](repeating: 0, count: reports.count)
        for (vBucket, node) in activeNodes.enumerated() {
            let owner = node.flatMap { owner in reports.firstIndex { $0.node == owner } }
            let active =
                owner.flatMap { reports[$0].copies.isActive(vBucket) ? $0 : nil }
                ?? reports.firstIndex { $0.copies.isActive(vBucket) }
            if let active {
                last[vBucket] = reports[active].copies.items(of: vBucket) ?? 0
                sums[owner ?? active] &+= last[vBucket]
            } else if let owner {
                let known = reports.compactMap { $0.copies.items(of: vBucket) }.max() ?? 0
                sums[owner] &+= max(known, last[vBucket])
            }
        }
        return Dictionary(zip(reports.map(\.node), sums)) { $0 + $1 }
    }
}

extension CopyItems: CodedFields {
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&entries, "copies")
    }
}
