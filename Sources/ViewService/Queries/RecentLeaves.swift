internal import Bytes
package import Indexing
package import Vocabulary

/// The leaves that short queries have read lately, so that the next query of their rows neither reads nor
/// checks them.
///
/// - A leaf is found by its number and version, as in `InnerNodes`.
/// - There are two generations: when the young one is full, it replaces the old one. A leaf of the old one
///   that is found again is young.
/// - A leaf does not change, so several threads may read it.
package final class RecentLeaves: Sendable {
    /// A quarter of what the caches of an index's readers may have.
    package static let bytesMax = 4 << 20

    private struct Generation {
        var nodes: [IndexNodeID: Node] = [:]
        var bytes = 0

        mutating func add(_ node: Node) {
            nodes[node.id] = node
            bytes += node.memoryBytes
        }

        mutating func remove(_ id: IndexNodeID) {
            if let node = nodes.removeValue(forKey: id) { bytes -= node.memoryBytes }
        }
    }

    private struct State {
        var young = Generation()
        var old = Generation()

        mutating func keep(_ node: Node, bytesMax: Int) {
            young.remove(node.id)
            old.remove(node.id)
            if young.bytes + node.memoryBytes > bytesMax / 2 {
                old = young
                young = Generation()
            }
            young.add(node)
        }
    }

    private let bytesMax: Int
    private let state = Guarded(State())

    /// No leaves yet; later at most `bytesMax` bytes of them.
    package init(bytesMax: Int = RecentLeaves.bytesMax) {
        self.bytesMax = bytesMax
    }

    /// The leaf, if this version of it is kept.
    package func node(_ id: IndexNodeID, version: UInt32) -> Node? {
        state.withLock { state in
            if let node = state.young.nodes[id] { return node.version == version ? node : nil }
            guard let node = state.old.nodes[id], node.version == version else { return nil }
            state.keep(node, bytesMax: bytesMax)
            return node
        }
    }

    /// Keeps a leaf instead of another version of it.
    package func keep(_ node: Node) {
        guard node.isLeaf, node.memoryBytes <= bytesMax / 2 else { return }
        state.withLock { $0.keep(node, bytesMax: bytesMax) }
    }

    /// The bytes of memory of the kept leaves.
    package var memoryBytes: Int { state.withLock { $0.young.bytes + $0.old.bytes } }
}
