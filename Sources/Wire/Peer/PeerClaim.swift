package import Bytes
package import Vocabulary

/// The identity that a node claims toward another node on a new connection.
///
/// A reader skips the fields that it does not know, so that a later release can add some.
package struct PeerClaim: Hashable, Sendable {
    /// 0 for a node that has no number yet.
    package var node: NodeNumber
    package var nodeUUID: String
    package var clusterUUID: String
    /// Names the Raft group: random, new with each birth and each new epoch.
    package var group: UInt64
    package var epoch: UInt64
    /// The highest level that the node understands.
    package var level = FeatureLevel.current

    package init(
        node: NodeNumber,
        nodeUUID: String,
        clusterUUID: String,
        group: UInt64,
        epoch: UInt64
    ) {
        precondition(
            PeerClaim.isName(nodeUUID) && PeerClaim.isName(clusterUUID),
            "a UUID is short plain text"
        )
        self.node = node
        self.nodeUUID = nodeUUID
        self.clusterUUID = clusterUUID
        self.group = group
        self.epoch = epoch
    }

    /// Whether a text can be a UUID of a claim.
    ///
    /// It has at most 64 printable ASCII characters: names of unauthenticated nodes are logged.
    package static func isName(_ text: String) -> Bool {
        text.utf8.count <= 64 && text.utf8.allSatisfy { (0x21...0x7e).contains($0) }
    }
}

/// Within another message, two bytes with its length precede it.
extension PeerClaim: ExtensibleFields {
    package init() {
        self.init(node: NodeNumber(0), nodeUUID: "", clusterUUID: "", group: 0, epoch: 0)
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.fixed(&node, "node")
        try coder.field(&nodeUUID, "UUID of the node")
        try coder.require(PeerClaim.isName(nodeUUID), "UUID of the node")
        try coder.field(&clusterUUID, "UUID of the cluster")
        try coder.require(PeerClaim.isName(clusterUUID), "UUID of the cluster")
        try coder.fixed(&group, "group")
        try coder.fixed(&epoch, "epoch")
        try coder.field(&level, "level")
    }

    package func write(to writer: inout FieldWriter) {
        let fields = encoded
        writer.output.append(bigEndian: UInt16(fields.count))
        writer.output.append(fields)
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        let fields = try reader.readView(Int(try reader.readFixed(UInt16.self)))
        self = try PeerClaim(decoding: fields, skipsRest: true)
    }
}
