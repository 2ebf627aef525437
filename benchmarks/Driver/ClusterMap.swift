internal import Bytes
internal import JSON
internal import Seams
internal import Vocabulary

/// Which node has which vBucket.
struct ClusterMap: Sendable {
    let nodes: [SocketAddress]
    /// Node of each vBucket.
    private let active: [Int]

    /// A server that is all there is and knows nothing of vBuckets.
    init(only address: SocketAddress) {
        nodes = [address]
        active = [0]
    }

    /// The map in a bucket's configuration as GET_CLUSTER_CONFIG answers it; `host` is the one we
    /// reached the node by, which the map writes as `$HOST`.
    init(configuration: ByteView, host: String) throws(BenchError) {
        guard let tree = JSONValue.parse(configuration),
            let map = tree["vBucketServerMap"],
            let servers = map["serverList"]?.array, let rows = map["vBucketMap"]?.array,
            !servers.isEmpty, !rows.isEmpty
        else { throw BenchError("the bucket's configuration has no vBucket map") }
        nodes = try servers.map { (server) throws(BenchError) in
            try ClusterMap.address(server.string ?? "", host: host)
        }
        let count = nodes.count
        active = try rows.map { (row) throws(BenchError) in
            guard let first = row.array?.first?.int, (0..<count).contains(first) else {
                throw BenchError("the vBucket map has a vBucket that nobody serves")
            }
            return first
        }
    }

    private static func address(
        _ text: String,
        host: String
    ) throws(BenchError) -> SocketAddress {
        guard let colon = text.lastIndex(of: ":"),
            let port = UInt16(text[text.index(after: colon)...])
        else { throw BenchError("the vBucket map names a node as \"\(text)\"") }
        let name = String(text[..<colon])
        let isHere = name == "$HOST" || name == "localhost"
        return SocketAddress(host: isHere ? host : name, port: port)
    }

    func vBucket(of key: ByteView) -> VBucketID {
        active.count == 1 ? VBucketID(0) : VBucketID(ofKey: key, count: active.count)
    }

    func node(of vBucket: VBucketID) -> Int { active[Int(vBucket.number)] }
}
