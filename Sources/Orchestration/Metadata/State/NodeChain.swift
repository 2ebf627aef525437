package import Bytes
package import Vocabulary

/// The current copies of a vBucket, the active one first: at most four nodes, in one word.
///
/// A cluster state has tens of thousands of chains and is copied and compared as a value.
///
/// - No node is in a chain twice. Node number 0 means no node and is never in a chain.
package struct NodeChain: Hashable, Sendable, RandomAccessCollection, ExpressibleByArrayLiteral {
    package static let countMax = 4

    /// Sixteen bits a node, the first lowest.
    private var bits: UInt64 = 0

    package init() {}

    /// Nil if there are more than `countMax` nodes, a node twice, or node number 0.
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

    /// The chain without these nodes, in the same order.
    package func without(_ nodes: [NodeNumber]) -> NodeChain {
        NodeChain(filter { !nodes.contains($0) }) ?? NodeChain()
    }

    /// The first `most` nodes, in the same order.
    package func first(_ most: Int) -> NodeChain { NodeChain(prefix(most)) ?? NodeChain() }

    package var nodes: [NodeNumber] { Array(self) }
}

extension NodeChain: Coded {
    package func write(to writer: inout FieldWriter) {
        writer.write(number: count)
        for node in self { node.write(to: &writer) }
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        guard let chain = NodeChain(try [NodeNumber](from: &reader)) else {
            throw reader.failure(.invalid)
        }
        self = chain
    }
}
