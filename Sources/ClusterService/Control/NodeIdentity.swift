internal import Bytes
internal import Credentials
internal import Orchestration
internal import Persistence
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
extension NodeIdentity: PeerPayload {
    static let fact = "identity"

    init?(_ reader: inout ByteReader) {
        guard let version = reader.bigEndian(UInt8.self), version == 3,
            let nodeUUID = reader.text(),
            let number = reader.node(), let clusterUUID = reader.text(),
            let groupID = reader.bigEndian(UInt64.self), let epoch = reader.leb128(),
            let seed = reader.counted(), seed.count == NodeSecrets.seedByteCount,
            PeerClaim.isName(nodeUUID), PeerClaim.isName(clusterUUID),
            let members = reader.all(PeerPlace.self)
        else { return nil }
        self.nodeUUID = nodeUUID
        self.number = number
        self.clusterUUID = clusterUUID
        self.groupID = groupID
        self.epoch = epoch
        secrets = NodeSecrets(seed: seed)
        self.members = members
    }

    func append(to writer: ByteWriter) {
        writer.append(UInt8(3))
        writer.append(counted: nodeUUID)
        writer.append(number)
        writer.append(counted: clusterUUID)
        writer.append(bigEndian: groupID)
        writer.append(leb: epoch)
        writer.append(counted: secrets.seed)
        writer.append(all: members)
    }
}
