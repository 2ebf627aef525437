internal import Bytes
internal import JSON
internal import Orchestration
internal import Vocabulary
internal import Wire

/// A node that may be added, as it describes itself on a secured connection.
struct NodeDescription: ExtensibleFields, Hashable {
    var uuid = ""
    var ports = NodePorts()
    /// Memory available to the node, in bytes; 0 if it was not reported.
    var memoryTotal: UInt64 = 0
    /// The highest feature level that it announces.
    var level = FeatureLevel.lowest
    /// The public key with which others seal to it; the connection proves the other key.
    var sealingKey: [UInt8] = []

    init() {}

    init(_ node: NodeRecord) {
        uuid = node.uuid
        ports = node.ports
        memoryTotal = node.memoryTotal
        level = node.level
        sealingKey = node.keys.sealing
    }

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&uuid, "UUID")
        try coder.require(PeerClaim.isName(uuid) && !uuid.isEmpty, "UUID")
        try coder.field(&ports, "ports")
        try coder.field(&memoryTotal, "memory")
        var number = level.number
        try coder.field(&number, "level")
        level = FeatureLevel(number)
        try coder.field(&sealingKey, "sealing key")
        try coder.require(sealingKey.count == NodeKeys.keyByteCount, "sealing key")
    }

    /// The node as a new member at `host`.
    ///
    /// - Parameters:
    ///   - host: The name at which the other nodes reach it.
    ///   - identity: The public key that it has proved.
    ///   - group: Its server group.
    ///   - names: The revision of the node names against which `host` was checked.
    /// - Returns: The member; nil if a key is none.
    func node(at host: String, identity: [UInt8], group: String, names: UInt32) -> NewNode? {
        guard let keys = NodeKeys(identity: identity, sealing: sealingKey) else { return nil }
        var new = NewNode(
            uuid: uuid,
            host: host,
            ports: ports,
            keys: keys,
            group: group
        )
        new.namesRevision = names
        new.memoryTotal = memoryTotal
        new.level = level
        return new
    }
}

/// Where a node listens for other nodes, as its admin port tells every client.
///
/// Nothing in it is trusted: the other side of the connection to that port proves itself.
enum Introduction {
    static let path = "/nodes/self/peer"

    /// The port for other nodes of the node at `host` and `port`, and the caller's own address on
    /// the connection to it.
    ///
    /// - Throws: `JoinRefusal` if the node cannot be reached, or is none.
    static func ask(
        _ host: String,
        _ port: UInt16,
        by probe: any NodeProbe
    ) async throws(JoinRefusal) -> (peerPort: UInt16, ownAddress: String) {
        switch await probe.ask(ProbeRequest(host: host, port: port, path: path)) {
        case .unreachable(let reason): throw .unreachable(reason)
        case .answered(200, let body, let address):
            let value = body.withUnsafeBytes { JSONValue.parse(ByteView($0)) }
            guard let peer = value?["port"]?.int.flatMap(UInt16.init(exactly:)) else {
                throw .notDivan
            }
            guard peer != 0 else { throw .noPeerPort }
            return (peer, address)
        case .answered(503, _, _): throw .notReady
        case .answered: throw .notDivan
        }
    }
}

/// Why a node cannot be added, or cannot join; nothing was changed.
enum JoinRefusal: Error {
    case unreachable(String)
    /// Its port for other nodes cannot be reached.
    case peerPortUnreachable(UInt16)
    /// A member that was requested to add this node has not answered.
    case noAnswer
    /// A node on another machine is added only with its token.
    case tokenNeeded
    /// A login is sent to another machine only if the operator has named its node's fingerprint.
    case fingerprintNeeded
    /// It did not accept the token, or did not prove that it has it.
    case wrongToken
    /// The fingerprint of the key that it proved.
    case wrongFingerprint(String)
    /// The node is part of a cluster; with the cluster's UUID.
    case provisioned(String)
    case notDivan
    /// The node is starting or stopping, or has no record of itself: it has just left a cluster,
    /// or another cluster has invited it.
    case notReady
    case levelTooLow(FeatureLevel, required: FeatureLevel)
    /// The node serves only itself: it has no address for other nodes.
    case noPeerPort

    /// A sentence for the operator that adds `host`.
    func sentence(_ host: String, _ port: UInt16) -> String {
        let place = "\(host):\(port)"
        let tokenPrinted =
            "On its machine, \"cat DIRECTORY/\(InitToken.fileName)\" prints the token of its data "
            + "directory."
        let fingerprintPrinted =
            "On its machine, \"curl -s localhost:\(port)\(Introduction.path)\" prints its fingerprint."
        switch self {
        case .unreachable(let reason):
            return "Prepare join failed. The node \(place) could not be reached: \(reason). "
                + "Check that it runs, and that its admin port is open to this node."
        case .peerPortUnreachable(let peer):
            return "Prepare join failed. The port of the node \(place) for other nodes, "
                + "\(host):\(peer), could not be reached. Check that it is open to this node."
        case .noAnswer:
            return "The node \(place) has not answered in time. It may add this node yet: look at "
                + "the list of nodes of its cluster before you repeat the request."
        case .tokenNeeded:
            return "Prepare join failed. The node \(place) is on another machine, and accepts an "
                + "invitation only with its token: name it as the password of any user. \(tokenPrinted)"
        case .fingerprintNeeded:
            return "Prepare join failed. The node \(place) is on another machine, to which the "
                + "password is not sent before that node has proved which one it is: name its "
                + "fingerprint in the field \"fingerprint\". \(fingerprintPrinted)"
        case .wrongToken:
            return "Prepare join failed. The password is not the token of the node \(place), which "
                + "accepts an invitation from another machine only with it. \(tokenPrinted)"
        case .wrongFingerprint(let found):
            return "Prepare join failed. What answers at \(place) has the fingerprint \(found), "
                + "not the one that was named. It is another node, or something between the two "
                + "machines reads what they send. \(fingerprintPrinted)"
        case .provisioned:
            return "Prepare join failed. The node \(place) is provisioned already: it is a cluster "
                + "of its own. Reset it first (POST /controller/hardResetNode), which deletes what "
                + "it holds."
        case .notDivan: return "Prepare join failed. The server at \(place) is not a Divan node."
        case .notReady:
            return "Prepare join failed. The node \(place) is not ready: it is starting, stopping, "
                + "or joining or leaving a cluster. Add it again in a moment. If it stays so, reset it "
                + "(POST /controller/hardResetNode), or look into its log."
        case .levelTooLow(let level, let required):
            return "Prepare join failed. The node \(place) supports feature level \(level.number), "
                + "and this cluster already uses level \(required.number). Start the release of the "
                + "cluster's nodes there, or a later one, and add the node again."
        case .noPeerPort:
            return "Prepare join failed. The node \(place) does not listen for other nodes."
        }
    }
}
