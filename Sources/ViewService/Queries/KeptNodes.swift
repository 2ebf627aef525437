internal import Bytes
package import Indexing
package import Vocabulary

/// Nodes of an index that queries have read, so that the next query neither reads nor checks them.
///
/// - A node is found by its number and version, and a version of a node has one content. So a node of an
///   older commit is not found by a query of a newer one, unless it is the same.
/// - A kept node does not change any more, so several threads may read it.
/// - The policy states which nodes are kept and which are discarded, in at most `bytesMax` bytes.
package final class KeptNodes: Sendable {
    /// Which nodes are kept.
    package enum Policy: Sendable {
        /// All inner nodes, so that a query reads only leaves. If they exceed the bound, all are
        /// discarded: it is seldom, and the next queries read them again.
        case innerNodes
        /// The leaves that were read lately, in two generations: when the young one is full, it replaces
        /// the old one. A leaf of the old one that is found again is young.
        case recentLeaves

        /// The usual bound.
        package var bytesMax: Int {
            switch self {
            // Some hundred nodes: all inner nodes of a million rows.
            case .innerNodes: 1 << 20
            // A quarter of what the caches of an index's readers may have.
            case .recentLeaves: 4 << 20
            }
        }
    }

    private struct Generation {
        var nodes: [IndexNodeID: IndexNode] = [:]
        var bytes = 0

        mutating func add(_ node: IndexNode) {
            nodes[node.id] = node
            bytes += node.memoryBytes
        }

        mutating func remove(_ id: IndexNodeID) {
            if let node = nodes.removeValue(forKey: id) { bytes -= node.memoryBytes }
        }
    }

    private struct State {
        var young = Generation()
        /// Empty for inner nodes.
        var old = Generation()

        mutating func keep(_ node: IndexNode, _ policy: Policy, generationBytesMax: Int) {
            young.remove(node.id)
            old.remove(node.id)
            if young.bytes + node.memoryBytes > generationBytesMax {
                if policy == .recentLeaves { old = young }
                young = Generation()
            }
            young.add(node)
        }
    }

    private let policy: Policy
    /// The bound of one generation.
    private let generationBytesMax: Int
    private let state = Guarded(State())

    /// No nodes yet; later at most `bytesMax` bytes of them, by default the usual bound of the policy.
    package init(_ policy: Policy, bytesMax: Int? = nil) {
        self.policy = policy
        let bytesMax = bytesMax ?? policy.bytesMax
        generationBytesMax = policy == .recentLeaves ? bytesMax / 2 : bytesMax
    }

    /// The node, if this version of it is kept.
    package func node(_ id: IndexNodeID, version: UInt32) -> IndexNode? {
        state.withLock { state in
            if let node = state.young.nodes[id] { return node.version == version ? node : nil }
            guard let node = state.old.nodes[id], node.version == version else { return nil }
            state.keep(node, policy, generationBytesMax: generationBytesMax)
            return node
        }
    }

    /// Keeps a node instead of another version of it; ignores a node that is not of the policy, or that
    /// exceeds the bound.
    package func keep(_ node: IndexNode) {
        guard node.isLeaf == (policy == .recentLeaves) else { return }
        guard node.memoryBytes <= generationBytesMax else { return }
        // Decoding later would change a node that other threads read.
        node.decodeChildren()
        state.withLock { $0.keep(node, policy, generationBytesMax: generationBytesMax) }
    }

    /// Frees all nodes; queries that have one still read it.
    package func removeAll() { state.withLock { $0 = State() } }

    /// The bytes of memory of the kept nodes.
    package var memoryBytes: Int { state.withLock { $0.young.bytes + $0.old.bytes } }
}
