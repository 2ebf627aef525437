internal import Bytes
package import Vocabulary

/// What a node says of itself when it meets another.
///
/// As bytes it is a record: its length (UInt16), then its fields. A reader skips the fields that it
/// does not know, so that a later release can add some.
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
    package static func isName(_ text: String) -> Bool { isName(Array(text.utf8)) }

    /// At most 64 printable ASCII characters: names of unauthenticated nodes are logged.
    private static func isName(_ bytes: [UInt8]) -> Bool {
        bytes.count <= 64 && bytes.allSatisfy { (0x21...0x7e).contains($0) }
    }

    init?(_ reader: inout ByteReader) {
        guard let length = reader.bigEndian(UInt16.self), let record = reader.bytes(Int(length))
        else { return nil }
        var fields = ByteReader(record)
        self.init(fields: &fields)
    }

    private init?(fields reader: inout ByteReader) {
        guard let number = reader.bigEndian(UInt16.self), let uuid = PeerClaim.name(&reader),
            let cluster = PeerClaim.name(&reader), let group = reader.bigEndian(UInt64.self),
            let epoch = reader.bigEndian(UInt64.self), let level = reader.bigEndian(UInt16.self)
        else { return nil }
        self.init(
            node: NodeNumber(number),
            nodeUUID: uuid,
            clusterUUID: cluster,
            group: group,
            epoch: epoch
        )
        self.level = FeatureLevel(level)
    }

    private static func name(_ reader: inout ByteReader) -> String? {
        guard let length = reader.bigEndian(UInt8.self), let bytes = reader.bytes(Int(length)),
            isName(bytes.bytes)
        else { return nil }
        return bytes.text
    }

    func append(to output: ByteWriter) {
        let lengthAt = output.count
        output.append(bigEndian: UInt16(0))
        output.append(bigEndian: node.value)
        for name in [nodeUUID, clusterUUID] {
            output.append(UInt8(name.utf8.count))
            output.append(text: name)
        }
        output.append(bigEndian: group)
        output.append(bigEndian: epoch)
        output.append(bigEndian: level.number)
        output.replace(at: lengthAt, bigEndian: UInt16(output.count - lengthAt - 2))
    }
}
