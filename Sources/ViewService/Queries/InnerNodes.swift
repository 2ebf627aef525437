internal import Bytes
package import Indexing
package import Vocabulary

/// The inner nodes of an index that queries have read, so that a query reads and checks only leaves.
///
/// - A node is found by its number and version, and a version of a node has one content. So a node of an
///   older commit is not found by a query of a newer one, unless it is the same.
/// - A kept node does not change any more, so several threads may read it.
package final class InnerNodes: Sendable {
    /// Some hundred nodes: all inner nodes of a million rows.
    package static let bytesMax = 1 << 20

    private struct State {
        var nodes: [IndexNodeID: Node] = [:]
        var bytes = 0
    }

    private let bytesMax: Int
    private let state = Guarded(State())

    package init(bytesMax: Int = InnerNodes.bytesMax) {
        self.bytesMax = bytesMax
    }

    /// The node, if this version of it is kept.
    package func node(_ id: IndexNodeID, version: UInt32) -> Node? {
        state.withLock { state in
            guard let node = state.nodes[id], node.version == version else { return nil }
            return node
        }
    }

    /// Keeps an inner node instead of another version of it.
    package func keep(_ node: Node) {
        guard !node.isLeaf else { return }
        node.decodeChildren()
        state.withLock { state in
            if let old = state.nodes.removeValue(forKey: node.id) { state.bytes -= old.memoryBytes }
            if state.bytes + node.memoryBytes > bytesMax { state = State() }
            state.nodes[node.id] = node
            state.bytes += node.memoryBytes
        }
    }

    /// The bytes of memory of the kept nodes.
    package var memoryBytes: Int { state.withLock { $0.bytes } }
}
