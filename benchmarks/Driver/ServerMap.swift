internal import Bytes
internal import DivanClient
internal import Seams
internal import Vocabulary

/// The server of each vBucket, for requests that are rendered ahead of time.
///
/// The map must name a server for every vBucket, since rendered requests cannot wait for a newer
/// map as those of the client library can.
struct ServerMap: Sendable {
    let nodes: [SocketAddress]
    private let router: KeyRouter?

    /// A single server without vBuckets.
    init(only address: SocketAddress) {
        nodes = [address]
        router = nil
    }

    /// The map in a bucket's configuration as GET_CLUSTER_CONFIG answers it; `host` replaces
    /// `$HOST` in the map: the name by which the driver reached the node; `isSecured` chooses the ports with TLS.
    init(configuration: ByteView, host: String, isSecured: Bool) throws(BenchError) {
        let map: ClusterMap
        do throws(ClusterMap.InvalidMap) {
            map = try ClusterMap(configuration, host: host, isSecured: isSecured)
        } catch {
            throw BenchError("the bucket's configuration is unusable: \(error)")
        }
        for number in 0..<map.vBucketCount
        where map.node(of: VBucketID(UInt16(number))) == nil {
            throw BenchError("the vBucket map has a vBucket without an active copy")
        }
        nodes = map.nodes.map { node in
            node.host == "localhost" ? SocketAddress(host: host, port: node.port) : node
        }
        router = KeyRouter(map)
    }

    func vBucket(of key: ByteView) -> VBucketID { router?.vBucket(of: key) ?? VBucketID(0) }

    func node(of vBucket: VBucketID) -> Int { router?.map.node(of: vBucket) ?? 0 }
}
