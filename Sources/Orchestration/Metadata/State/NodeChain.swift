package import Vocabulary

/// The copies of a vBucket that count, active one first: at most four nodes, in one word.
///
/// A cluster's state has tens of thousands of these, and is copied and compared as a value.
///
/// - No node is there twice, and nobody (0) is not there at all.
package struct NodeChain: Hashable, Sendable, RandomAccessCollection, ExpressibleByArrayLiteral {
    package static let countMax = 4

    /// Sixteen bits a node, the first lowest.
    private var bits: UInt64 = 0

    package init() {}

    /// Nil where there are too many, or one twice, or nobody.
    package init?(_ nodes: some Sequence<NodeNumber>) {
        for node in nodes {
            guard node.value != 0, count < Self.countMax, !contains(node) else { return nil }
            bits |= UInt64(node.value) << UInt64(16 * count)
        }
    }

    package init(arrayLiteral elements: NodeNumber...) {
        guard let chain = NodeChain(elements) else {
            preconditionFailure("a chain has at most four nodes, each once")
        }
        self = chain
    }

    package var startIndex: Int { 0 }
    package var endIndex: Int { 4 - bits.leadingZeroBitCount / 16 }

    package subscript(place: Int) -> NodeNumber {
        NodeNumber(UInt16(truncatingIfNeeded: bits >> UInt64(16 * place)))
    }

    package func contains(_ node: NodeNumber) -> Bool {
        for place in 0..<count where self[place] == node { return true }
        return false
    }

    /// The others, in the same order.
    package func without(_ nodes: [NodeNumber]) -> NodeChain {
        NodeChain(filter { !nodes.contains($0) }) ?? NodeChain()
    }

    /// No more than so many of them, in the same order.
    package func first(_ most: Int) -> NodeChain { NodeChain(prefix(most)) ?? NodeChain() }

    package var nodes: [NodeNumber] { Array(self) }
}
