/// The text of a bucket's configuration, with nodes on this machine.
struct MapText: Sendable {
    var epoch: Int64 = 1
    var rev: Int64
    /// The data ports of the nodes.
    var ports: [UInt16]
    var bucket = "documents"
    var vBuckets = 64
    /// The node of each vBucket; nil to alternate between the nodes.
    var active: [Int]?
    var replicas: [Int]?
    var forward: [Int]?

    init(
        epoch: Int64 = 1,
        rev: Int64,
        ports: [UInt16],
        bucket: String = "documents",
        vBuckets: Int = 64
    ) {
        self.epoch = epoch
        self.rev = rev
        self.ports = ports
        self.bucket = bucket
        self.vBuckets = vBuckets
    }

    /// All vBuckets on one node.
    func all(on node: Int) -> MapText {
        var text = self
        text.active = Array(repeating: node, count: vBuckets)
        return text
    }

    var json: String {
        let active = active ?? (0..<vBuckets).map { $0 % ports.count }
        let rows = active.enumerated().map { number, node in
            replicas.map { "[\(node),\($0[number])]" } ?? "[\(node)]"
        }
        let moves = forward.map { rows in
            let text = rows.map { "[\($0)]" }.joined(separator: ",")
            return ",\"vBucketMapForward\":[\(text)]"
        }
        let servers = ports.map { "\"$HOST:\($0)\"" }.joined(separator: ",")
        let nodes = ports.map { "{\"services\":{\"kv\":\($0)}}" }.joined(separator: ",")
        return """
            {"rev":\(rev),"revEpoch":\(epoch),"name":"\(bucket)","nodesExt":[\(nodes)],\
            "vBucketServerMap":{"serverList":[\(servers)],"numReplicas":\(replicas == nil ? 0 : 1),\
            "vBucketMap":[\(rows.joined(separator: ","))]\(moves ?? "")}}
            """
    }

    var bytes: [UInt8] { Array(json.utf8) }
}
