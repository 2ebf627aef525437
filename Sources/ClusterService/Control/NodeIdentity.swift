internal import Bytes
internal import Credentials
internal import Seams
internal import Vocabulary
internal import Wire

/// A node's identity, stored beside the agreed state in the same file.
///
/// The private keys never leave this file, and are never traced.
struct NodeIdentity: Sendable {
    var nodeUUID: String
    var number: NodeNumber
    /// Empty before provisioning.
    var clusterUUID: String
    var groupID: UInt64
    var epoch: UInt64
    var secrets: NodeSecrets
    /// The addresses of the other nodes at the invitation, until the state arrives.
    var members: [PeerPlace] = []
    /// The highest feature level that this process understands; not stored.
    var level = FeatureLevel.current

    /// The identity of a new node in a group of its own.
    static func found(_ entropy: any Entropy) -> NodeIdentity {
        NodeIdentity(
            nodeUUID: entropy.hex(16),
            number: NodeNumber(1),
            clusterUUID: "",
            groupID: entropy.next() | 1,
            epoch: 1,
            secrets: NodeSecrets(seed: entropy.bytes(NodeSecrets.seedByteCount))
        )
    }

    /// The identity after an invitation by a cluster.
    func engaged(by message: EngageMessage) -> NodeIdentity {
        NodeIdentity(
            nodeUUID: nodeUUID,
            number: message.number,
            clusterUUID: message.clusterUUID,
            groupID: message.groupID,
            epoch: message.revEpoch,
            secrets: secrets,
            members: message.members
        )
    }

    /// The same node in a new epoch of its cluster.
    func renewed(by epoch: EpochHandover) -> NodeIdentity {
        var identity = self
        identity.groupID = epoch.group
        identity.epoch = epoch.epoch
        identity.members = []
        return identity
    }

    /// The same node as a process that understands this level.
    func announcing(_ level: FeatureLevel) -> NodeIdentity {
        var identity = self
        identity.level = level
        return identity
    }

    var claim: PeerClaim {
        var claim = PeerClaim(
            node: number,
            nodeUUID: nodeUUID,
            clusterUUID: clusterUUID,
            group: groupID,
            epoch: epoch
        )
        claim.level = level
        return claim
    }

    var peer: PeerIdentityProof {
        PeerIdentityProof(
            claim: claim,
            keys: KeyPair(
                publicKey: secrets.publicKeys.identity,
                privateKey: secrets.seed
            )
        )
    }
}

/// Encoded as one fact of the control file.
extension NodeIdentity: ExtensibleFields {
    static let fact = "identity"
    private static let version: UInt8 = 3

    init() {
        self.init(
            nodeUUID: "",
            number: NodeNumber(0),
            clusterUUID: "",
            groupID: 0,
            epoch: 0,
            secrets: NodeSecrets(seed: [UInt8](repeating: 0, count: NodeSecrets.seedByteCount))
        )
    }

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        var version = Self.version
        try coder.field(&version, "version")
        try coder.require(version == Self.version, "version")
        try coder.field(&nodeUUID, "UUID")
        try coder.require(PeerClaim.isName(nodeUUID), "UUID")
        try coder.field(&number, "number")
        try coder.field(&clusterUUID, "cluster UUID")
        try coder.require(PeerClaim.isName(clusterUUID), "cluster UUID")
        try coder.fixed(&groupID, "group")
        try coder.field(&epoch, "epoch")
        var seed = secrets.seed
        try coder.field(&seed, "seed")
        try coder.require(seed.count == NodeSecrets.seedByteCount, "seed")
        if seed != secrets.seed { secrets = NodeSecrets(seed: seed) }
        try coder.field(&members, "members")
    }
}
