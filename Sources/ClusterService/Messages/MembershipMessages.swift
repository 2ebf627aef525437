internal import Bytes
internal import Orchestration
internal import Vocabulary
internal import Wire

/// The address at which other nodes connect to a node, and its public key.
struct PeerPlace: PeerPayload, Hashable {
    var node: NodeNumber
    var host: String
    var port: UInt16
    var key: [UInt8]

    init(_ node: NodeNumber, host: String, port: UInt16, key: [UInt8]) {
        self.node = node
        self.host = host
        self.port = port
        self.key = key
    }

    init?(_ reader: inout ByteReader) {
        guard let node = reader.node(), let host = reader.text(),
            let port = reader.bigEndian(UInt16.self), let key = reader.counted()
        else { return nil }
        self.init(node, host: host, port: port, key: key)
    }

    func append(to writer: ByteWriter) {
        writer.append(node)
        writer.append(counted: host)
        writer.append(bigEndian: port)
        writer.append(counted: key)
    }
}

/// An invitation into a cluster: everything that the invited node must store before it receives the
/// cluster's state.
struct EngageMessage: PeerPayload, Hashable {
    var clusterUUID: String
    var groupID: UInt64
    var revEpoch: UInt64
    /// The number of the joining node, and the name at which other nodes reach it.
    var number: NodeNumber
    var host: String
    var members: [PeerPlace]
    /// The cluster's feature level.
    var level = FeatureLevel.lowest
    /// That the sender has the joining node's token (`TokenProof`); empty if the operator gave none.
    var proof: [UInt8] = []

    /// Bytes of a host name (RFC 1035, section 2.3.4).
    static let hostBytesMax = 255

    init(
        clusterUUID: String,
        groupID: UInt64,
        revEpoch: UInt64,
        number: NodeNumber,
        host: String,
        members: [PeerPlace]
    ) {
        self.clusterUUID = clusterUUID
        self.groupID = groupID
        self.revEpoch = revEpoch
        self.number = number
        self.host = host
        self.members = members
    }

    init?(_ reader: inout ByteReader) {
        guard let clusterUUID = reader.text(), let groupID = reader.bigEndian(UInt64.self),
            let revEpoch = reader.leb128(), let number = reader.node(), let host = reader.text(),
            let members = reader.all(PeerPlace.self), let level = reader.leb(UInt16.self),
            let proof = reader.counted(),
            PeerClaim.isName(clusterUUID), number.value > 0, host.utf8.count <= Self.hostBytesMax
        else { return nil }
        self.init(
            clusterUUID: clusterUUID,
            groupID: groupID,
            revEpoch: revEpoch,
            number: number,
            host: host,
            members: members
        )
        self.level = FeatureLevel(level)
        self.proof = proof
    }

    func append(to writer: ByteWriter) {
        writer.append(counted: clusterUUID)
        writer.append(bigEndian: groupID)
        writer.append(leb: revEpoch)
        writer.append(number)
        writer.append(counted: host)
        writer.append(all: members)
        writer.append(leb: level.number)
        writer.append(counted: proof)
    }
}

/// The answer to `EngageMessage` and `JoinRequest`: the reason for a refusal; empty if the node accepts.
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

/// Asks a node that may be added to describe itself.
struct DescribeMessage: PeerPayload, Hashable {
    /// As `EngageMessage.proof`.
    var proof: [UInt8]

    init(proof: [UInt8]) {
        self.proof = proof
    }

    init?(_ reader: inout ByteReader) {
        guard let proof = reader.counted() else { return nil }
        self.proof = proof
    }

    func append(to writer: ByteWriter) { writer.append(counted: proof) }
}

/// The answer to `DescribeMessage`.
struct DescribeAnswer: PeerPayload, Hashable {
    enum Standing: UInt8 {
        case waiting = 1
        /// It is part of a cluster.
        case provisioned = 2
        /// It has no record of itself: it has just left a cluster, or another one has invited it.
        case notReady = 3
        /// It needs a proof of its token.
        case tokenNeeded = 4
    }

    var standing: Standing
    /// Empty for a node without a cluster.
    var clusterUUID = ""
    /// Only of a node that waits.
    var description: NodeDescription?
    /// That the node has the token too; empty if it was sent none.
    var proof: [UInt8] = []

    init(_ standing: Standing) {
        self.standing = standing
    }

    init?(_ reader: inout ByteReader) {
        guard let standing = reader.bigEndian(UInt8.self).flatMap(Standing.init(rawValue:)),
            let clusterUUID = reader.text(), let proof = reader.counted()
        else { return nil }
        self.standing = standing
        self.clusterUUID = clusterUUID
        self.proof = proof
        guard standing == .waiting else { return }
        guard let description = reader.record(NodeDescription.self) else { return nil }
        self.description = description
    }

    func append(to writer: ByteWriter) {
        writer.append(standing.rawValue)
        writer.append(counted: clusterUUID)
        writer.append(counted: proof)
        if let description { writer.append(record: description) }
    }
}

/// Asks a member to add the sender; it carries a login of the cluster.
///
/// Sent only to a node whose key the sender's operator has named, or on the same machine.
struct JoinRequest: PeerPayload, Hashable {
    var user: String
    var password: String
    /// The name at which other nodes reach the sender.
    var host: String
    var description: NodeDescription

    init(user: String, password: String, host: String, description: NodeDescription) {
        self.user = user
        self.password = password
        self.host = host
        self.description = description
    }

    init?(_ reader: inout ByteReader) {
        guard let user = reader.text(), let password = reader.text(), let host = reader.text(),
            let description = reader.record(NodeDescription.self),
            // The sender has proved nothing yet.
            user.utf8.count <= 1_024, password.utf8.count <= 1_024,
            host.utf8.count <= EngageMessage.hostBytesMax
        else { return nil }
        self.init(user: user, password: password, host: host, description: description)
    }

    func append(to writer: ByteWriter) {
        writer.append(counted: user)
        writer.append(counted: password)
        writer.append(counted: host)
        writer.append(record: description)
    }
}

/// The password is shown nowhere.
extension JoinRequest: CustomReflectable {
    var customMirror: Mirror { Mirror(self, children: ["user": user, "host": host]) }
}
