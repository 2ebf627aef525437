internal import Bytes
internal import Vocabulary
internal import Wire

/// The address at which other nodes connect to a node, and its public key.
struct PeerPlace: ExtensibleFields, Hashable {
    var node = NodeNumber(0)
    var host = ""
    var port: UInt16 = 0
    var key: [UInt8] = []

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&node, "node")
        try coder.field(&host, "host")
        try coder.fixed(&port, "port")
        try coder.field(&key, "key")
    }
}

/// An invitation into a cluster: everything that the invited node must store before it receives the
/// cluster's state.
struct EngageMessage: ExtensibleFields, Hashable {
    var clusterUUID = ""
    var groupID: UInt64 = 0
    var revEpoch: UInt64 = 0
    /// The number of the joining node, and the name at which other nodes reach it.
    var number = NodeNumber(0)
    var host = ""
    var members: [PeerPlace] = []
    /// The cluster's feature level.
    var level = FeatureLevel.lowest
    /// That the sender has the joining node's token (`TokenProof`); empty if the operator gave none.
    var proof: [UInt8] = []

    /// Bytes of a host name (RFC 1035, section 2.3.4).
    static let hostBytesMax = 255

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&clusterUUID, "cluster UUID")
        try coder.require(PeerClaim.isName(clusterUUID), "cluster UUID")
        try coder.fixed(&groupID, "group")
        try coder.field(&revEpoch, "epoch")
        try coder.field(&number, "number")
        try coder.field(&host, "host")
        try coder.require(host.utf8.count <= Self.hostBytesMax, "host")
        try coder.field(&members, "members")
        var levelNumber = level.number
        try coder.field(&levelNumber, "level")
        level = FeatureLevel(levelNumber)
        try coder.field(&proof, "proof")
    }
}

/// The answer to `EngageMessage` and `JoinRequest`: the reason for a refusal; empty if the node accepts.
struct EngageAnswer: ExtensibleFields, Hashable {
    var refusal = ""

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&refusal, "refusal")
    }
}

/// Asks a node that may be added to describe itself.
struct DescribeMessage: ExtensibleFields, Hashable {
    /// As `EngageMessage.proof`.
    var proof: [UInt8] = []

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&proof, "proof")
    }
}

/// The answer to `DescribeMessage`.
struct DescribeAnswer: ExtensibleFields, Hashable {
    enum Standing: UInt8 {
        case waiting = 1
        /// It is part of a cluster.
        case provisioned = 2
        /// It has no record of itself: it has just left a cluster, or another one has invited it.
        case notReady = 3
        /// It needs a proof of its token.
        case tokenNeeded = 4
    }

    var standing = Standing.notReady
    /// Empty for a node without a cluster.
    var clusterUUID = ""
    /// Only of a node that waits.
    var description: NodeDescription?
    /// That the node has the token too; empty if it was sent none.
    var proof: [UInt8] = []

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.choice(&standing, "standing")
        try coder.field(&clusterUUID, "cluster UUID")
        try coder.field(&proof, "proof")
        guard standing == .waiting else { return }
        var description = description ?? NodeDescription()
        try coder.field(&description, "description")
        self.description = description
    }
}

/// Asks a member to add the sender; it carries a login of the cluster.
///
/// Sent only to a node whose key the sender's operator has named, or on the same machine.
struct JoinRequest: ExtensibleFields, Hashable {
    var user = ""
    var password = ""
    /// The name at which other nodes reach the sender.
    var host = ""
    var description = NodeDescription()

    /// Bytes of a user and of a password: the sender has proved nothing yet.
    private static let loginBytesMax = 1_024

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&user, "user")
        try coder.require(user.utf8.count <= Self.loginBytesMax, "user")
        try coder.field(&password, "password")
        try coder.require(password.utf8.count <= Self.loginBytesMax, "password")
        try coder.field(&host, "host")
        try coder.require(host.utf8.count <= EngageMessage.hostBytesMax, "host")
        try coder.field(&description, "description")
    }
}

/// The password is shown nowhere.
extension JoinRequest: CustomReflectable {
    var customMirror: Mirror { Mirror(self, children: ["user": user, "host": host]) }
}
