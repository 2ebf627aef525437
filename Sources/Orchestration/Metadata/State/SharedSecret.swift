internal import Bytes
package import Vocabulary

/// A secret that all members share, sealed to each of them: neither the log nor a snapshot tells it.
///
/// - It is renewed after each change of the members, so that a node that was removed does not know it.
package struct SharedSecret: Hashable, Sendable {
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

    package init() {}

    /// The secret as sealed to a node; nil if it was not.
    package func sealed(to node: NodeNumber) -> [UInt8]? {
        boxes.first { $0.node == node }?.sealed
    }

    /// Whether exactly these nodes can open it.
    package func isFor(_ nodes: [NodeRecord]) -> Bool { boxes.map(\.node) == nodes.map(\.number) }
}

extension SharedSecret {
    func append(to writer: ByteWriter) {
        writer.append(number: revision)
        writer.append(list: boxes) { box, writer in
            writer.append(node: box.node)
            writer.append(counted: box.sealed)
        }
    }

    init?(_ reader: inout ByteReader) {
        let revision = reader.leb128()
        let boxes = reader.list { reader -> Box? in
            guard let node = reader.node(), let sealed = reader.counted() else { return nil }
            return Box(node: node, sealed: sealed)
        }
        guard let revision, let boxes else { return nil }
        self.revision = revision
        self.boxes = boxes
    }
}
