internal import Bytes
internal import Credentials
internal import Vocabulary

/// The address at which other nodes connect to a node.
struct PeerPlace: PeerPayload, Hashable {
    var node: NodeNumber
    var host: String
    var port: UInt16

    init(_ node: NodeNumber, host: String, port: UInt16) {
        self.node = node
        self.host = host
        self.port = port
    }

    init?(_ reader: inout ByteReader) {
        guard let node = reader.node(), let host = reader.text(),
            let port = reader.bigEndian(UInt16.self)
        else { return nil }
        self.init(node, host: host, port: port)
    }

    func append(to writer: ByteWriter) {
        writer.append(node)
        writer.append(counted: host)
        writer.append(bigEndian: port)
    }
}

/// An invitation into a cluster: everything that the invited node must store before it receives the
/// cluster's state.
///
/// It contains the cluster's secret, so it is sent only in the encrypted records of a `join`
/// connection, and is never traced.
struct EngageMessage: PeerPayload, Hashable {
    var clusterUUID: String
    var groupID: UInt64
    var revEpoch: UInt64
    var secret: [UInt8]
    /// The number of the joining node, and the name at which other nodes reach it.
    var number: NodeNumber
    var host: String
    var members: [PeerPlace]
    /// The cluster's feature level.
    var level = FeatureLevel.lowest
    /// The joining node's token (`InitToken`), or another text if the operator has given none.
    var token = ""

    init(
        clusterUUID: String,
        groupID: UInt64,
        revEpoch: UInt64,
        secret: [UInt8],
        number: NodeNumber,
        host: String,
        members: [PeerPlace]
    ) {
        self.clusterUUID = clusterUUID
        self.groupID = groupID
        self.revEpoch = revEpoch
        self.secret = secret
        self.number = number
        self.host = host
        self.members = members
    }

    init?(_ reader: inout ByteReader) {
        guard let clusterUUID = reader.text(), let groupID = reader.bigEndian(UInt64.self),
            let revEpoch = reader.leb128(), let secret = reader.counted(),
            let number = reader.node(), let host = reader.text(),
            let members = reader.all(PeerPlace.self), let level = reader.leb(UInt16.self),
            let token = reader.text(),
            // The sender is not authenticated, so the secret may be malformed.
            secret.count == PeerSecret.byteCount
        else { return nil }
        self.init(
            clusterUUID: clusterUUID,
            groupID: groupID,
            revEpoch: revEpoch,
            secret: secret,
            number: number,
            host: host,
            members: members
        )
        self.level = FeatureLevel(level)
        self.token = token
    }

    func append(to writer: ByteWriter) {
        writer.append(counted: clusterUUID)
        writer.append(bigEndian: groupID)
        writer.append(leb: revEpoch)
        writer.append(counted: secret)
        writer.append(number)
        writer.append(counted: host)
        writer.append(all: members)
        writer.append(leb: level.number)
        writer.append(counted: token)
    }
}

/// The answer to `EngageMessage`: the reason for a refusal; empty if the node accepts.
struct EngageAnswer: PeerPayload, Hashable {
    var refusal: String

    init(refusal: String = "") {
        self.refusal = refusal
    }

    init?(_ reader: inout ByteReader) {
        guard let refusal = reader.text() else { return nil }
        self.refusal = refusal
    }

    func append(to writer: ByteWriter) { writer.append(counted: refusal) }
}
