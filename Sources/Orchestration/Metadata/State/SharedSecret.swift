package import Bytes
package import Vocabulary

/// A secret that all members share, sealed to each of them: neither the log nor a snapshot tells it.
///
/// - It is renewed after each change of the members, so that a node that was removed does not know it.
package struct SharedSecret: Hashable, Sendable, CodedFields {
    package struct Box: Hashable, Sendable {
        package var node: NodeNumber
        /// Opaque to this module.
        package var sealed: [UInt8]

        package init(node: NodeNumber, sealed: [UInt8]) {
            self.node = node
            self.sealed = sealed
        }
    }

    /// 0 before the first secret; one more with each renewal.
    package var revision: UInt64 = 0
    /// Sorted by node.
    package var boxes: [Box] = []
    /// The cluster's own authorities, newest first.
    ///
    /// The members issue their certificates from the first, whose private key follows from the secret. The others
    /// stay trusted for a while.
    package var authorities: [AuthorityRecord] = []

    package init() {}

    /// The secret as sealed to a node; nil if it was not.
    package func sealed(to node: NodeNumber) -> [UInt8]? {
        boxes.first { $0.node == node }?.sealed
    }

    /// Whether exactly these nodes can open it.
    package func isFor(_ nodes: [NodeRecord]) -> Bool { boxes.map(\.node) == nodes.map(\.number) }

    /// Whether exactly the nodes of these boxes can open it.
    package func isFor(_ others: [Box]) -> Bool { boxes.map(\.node) == others.map(\.node) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&revision, "revision")
        let blank = Box(node: NodeNumber(0), sealed: [])
        try coder.list(&boxes, "boxes", blank: blank) { coder, box throws(CodingFailure) in
            try coder.field(&box.node, "node")
            try coder.field(&box.sealed, "sealed secret")
        }
        try coder.field(&authorities, "authorities")
    }
}
