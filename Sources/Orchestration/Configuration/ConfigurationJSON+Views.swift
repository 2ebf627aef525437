package import Vocabulary

/// Announcements of views in configurations and REST.
///
/// A client that finds an announcement sends requests to it, and without one fails a request at once.
/// So each part is present only if it is true:
///
/// - the address of a node's view port, if the node has one and serves data;
/// - the views of a bucket, if every node with its data has a view port. A client chooses any of
///   them. Ephemeral buckets have no views.
extension ConfigurationJSON {
    /// The member `ddocs` with the REST path of a bucket's design documents; empty if the bucket has
    /// no views.
    package static func designDocuments(
        of bucket: BucketRecord,
        servers: [NodeRecord]
    ) -> [(String, JSONText)] {
        guard hasViews(bucket, servers) else { return [] }
        let uri = "/pools/default/buckets/\(path(bucket.settings.name))/ddocs"
        return [("ddocs", ["uri": .string(uri)])]
    }

    /// The member `couchApiBase` with the address of a node's view port; empty if it has none.
    ///
    /// - Parameters:
    ///   - node: The node.
    ///   - bucket: The bucket whose views have the address; nil for the address of all buckets.
    ///   - host: How to name loopback nodes.
    /// - Returns: One member, or none.
    package static func viewsAddress(
        of node: NodeRecord,
        bucket: BucketSettings?,
        host: HostNaming
    ) -> [(String, JSONText)] {
        guard node.ports.views != 0, bucket?.type != .ephemeral else { return [] }
        let place = bucket.map { "\(path($0.name))%2B\($0.uuid)" } ?? ""
        let plain = name(node, port: node.ports.views, host)
        let secured = name(node, port: node.ports.viewsTLS, host)
        let address = ("couchApiBase", JSONText.string("http://\(plain)/\(place)"))
        return node.ports.viewsTLS == 0
            ? [address]
            : [address, ("couchApiBaseHTTPS", .string("https://\(secured)/\(place)"))]
    }

    static func hasViews(_ bucket: BucketRecord, _ servers: [NodeRecord]) -> Bool {
        bucket.settings.type == .persistent && !servers.isEmpty
            && servers.allSatisfy { $0.ports.views != 0 }
    }
}
