internal import Bytes
internal import Credentials
internal import Orchestration
internal import Persistence
internal import Seams
internal import Vocabulary
internal import Wire

/// A node's identity, stored beside the agreed state in the same file.
///
/// The secret is sent only to members of the cluster, and never traced.
struct NodeIdentity: Sendable {
    var nodeUUID: String
    var number: NodeNumber
    /// Empty before provisioning.
    var clusterUUID: String
    var groupID: UInt64
    var epoch: UInt64
    var secret: [UInt8]
    /// The addresses of the other nodes at the invitation, until the state arrives.
    var members: [PeerPlace] = []
    /// The highest feature level that this process understands; not stored.
    var level = FeatureLevel.current

    private static let secretByteCount = 32

    /// The identity of a new node in a group of its own.
    static func found(_ entropy: any Entropy) -> NodeIdentity {
        NodeIdentity(
            nodeUUID: entropy.hex(16),
            number: NodeNumber(1),
            clusterUUID: "",
            groupID: entropy.next() | 1,
            epoch: 1,
            secret: entropy.bytes(secretByteCount)
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
            secret: message.secret,
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

    var peer: PeerIdentityProof { PeerIdentityProof(claim: claim, secret: PeerSecret(secret)) }
}

/// Encoded as one fact of the control file.
extension NodeIdentity: PeerPayload {
    static let fact = "identity"

    init?(_ reader: inout ByteReader) {
        // In facts of version 1, the members' records have no length.
        guard let version = reader.bigEndian(UInt8.self), (1...2).contains(version),
            let nodeUUID = reader.text(),
            let number = reader.node(), let clusterUUID = reader.text(),
            let groupID = reader.bigEndian(UInt64.self), let epoch = reader.leb128(),
            let secret = reader.counted(),
            let members = version == 1
                ? Self.membersWithoutLengths(&reader) : reader.all(PeerPlace.self)
        else { return nil }
        self.nodeUUID = nodeUUID
        self.number = number
        self.clusterUUID = clusterUUID
        self.groupID = groupID
        self.epoch = epoch
        self.secret = secret
        self.members = members
    }

    private static func membersWithoutLengths(_ reader: inout ByteReader) -> [PeerPlace]? {
        guard let count = reader.leb(Int.self), count <= reader.rest.count else { return nil }
        var members: [PeerPlace] = []
        for _ in 0..<count {
            guard let member = PeerPlace(&reader) else { return nil }
            members.append(member)
        }
        return members
    }

    func append(to writer: ByteWriter) {
        writer.append(UInt8(2))
        writer.append(counted: nodeUUID)
        writer.append(number)
        writer.append(counted: clusterUUID)
        writer.append(bigEndian: groupID)
        writer.append(leb: epoch)
        writer.append(counted: secret)
        writer.append(all: members)
    }
}
