internal import Bytes
internal import JSON
internal import Vocabulary

/// What a node that may be added reports at its admin port.
struct NodeDescription: Sendable {
    /// Why a node cannot be added; nothing was changed.
    enum Refusal: Error {
        case unreachable(String)
        case wrongPassword
        /// The node is part of a cluster; with the cluster's UUID.
        case provisioned(String?)
        case notDivan
        /// The node serves requests without a login only under names that it knows.
        case nameUnknown
        /// The node is starting or stopping, or has no record of itself: it has just left a cluster,
        /// or another cluster has invited it.
        case notReady
        case levelTooLow(FeatureLevel, required: FeatureLevel)
        /// The node serves only itself: it has no address for other nodes.
        case noPeerPort
    }

    var uuid: String
    var adminPort: UInt16
    var dataPort: UInt16
    var peerPort: UInt16
    /// 0 if the node does not serve views.
    var viewsPort: UInt16
    /// The node's own address on the connection from this machine.
    var ownAddress: String
    /// Memory available to the node, in bytes; 0 if it was not reported.
    var memoryTotal: UInt64
    /// The highest feature level that it announces.
    var level: FeatureLevel

    private static let ownPath = "/nodes/self"

    /// Asks the node at `host` and `port`.
    ///
    /// - Throws: `Refusal` if the node cannot be reached or cannot be added.
    static func ask(
        _ host: String,
        _ port: UInt16,
        login: (user: String, password: String),
        by probe: any NodeProbe
    ) async throws(Refusal) -> NodeDescription {
        let pools = try await get("/pools", host, port, login, probe).value
        guard pools["divanVersion"] != nil else { throw .notDivan }
        guard pools["pools"]?.array?.isEmpty == true else {
            throw .provisioned(pools["uuid"]?.string)
        }
        let (own, address) = try await get(ownPath, host, port, login, probe)
        guard let uuid = own["nodeUUID"]?.string,
            let data = own["ports"]?["direct"]?.int.flatMap(UInt16.init(exactly:)),
            let hostname = own["configuredHostname"]?.string,
            let admin = hostname.split(separator: ":").last.flatMap({ UInt16($0) }),
            let level = own["featureLevel"]?.int.flatMap(UInt16.init(exactly:))
        else { throw .notDivan }
        guard let peer = own["ports"]?["distTCP"]?.int.flatMap(UInt16.init(exactly:)) else {
            throw .noPeerPort
        }
        return NodeDescription(
            uuid: uuid,
            adminPort: admin,
            dataPort: data,
            peerPort: peer,
            viewsPort: own["ports"]?["capi"]?.int.flatMap(UInt16.init(exactly:)) ?? 0,
            ownAddress: address,
            memoryTotal: own["memoryTotal"]?.int.flatMap(UInt64.init(exactly:)) ?? 0,
            level: FeatureLevel(level)
        )
    }

    /// - Throws: `levelTooLow` if the node cannot be a member of a cluster of this level.
    func requireLevel(_ required: FeatureLevel) throws(Refusal) {
        guard level >= required else { throw .levelTooLow(level, required: required) }
    }

    private static func get(
        _ path: String,
        _ host: String,
        _ port: UInt16,
        _ login: (user: String, password: String),
        _ probe: any NodeProbe
    ) async throws(Refusal) -> (value: JSONValue, address: String) {
        let request = ProbeRequest(host: host, port: port, path: path, login: login)
        switch await probe.ask(request) {
        case .unreachable(let reason): throw .unreachable(reason)
        case .answered(401, _, _): throw .wrongPassword
        case .answered(200, let body, let address):
            let value = body.withUnsafeBytes { JSONValue.parse(ByteView($0)) }
            guard let value else { throw .notDivan }
            return (value, address)
        case .answered(421, _, _): throw .nameUnknown
        case .answered(503, _, _): throw .notReady
        // Requested only after /pools has shown that the server is a Divan node.
        case .answered(404, _, _) where path == ownPath: throw .notReady
        case .answered: throw .notDivan
        }
    }
}

extension NodeDescription.Refusal {
    /// A sentence for the operator that adds `host`.
    func sentence(_ host: String, _ port: UInt16) -> String {
        let place = "\(host):\(port)"
        switch self {
        case .unreachable(let reason):
            return "Prepare join failed. The node \(place) could not be reached: \(reason). "
                + "Check that it runs, and that its admin port is open to this node."
        case .wrongPassword:
            return "Prepare join failed. The node \(place) refused user and password. Use the "
                + "administrator with which it was set up. A node without a cluster needs, as the "
                + "password of any user, the token of the file \(InitToken.fileName) in its data directory."
        case .provisioned:
            return "Prepare join failed. The node \(place) is provisioned already: it is a cluster "
                + "of its own. Reset it first (POST /controller/hardResetNode), which deletes what "
                + "it holds."
        case .nameUnknown:
            return "Prepare join failed. The node \(place) does not know this name. Start it with "
                + "--host-name \(host), or add it by its address."
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
