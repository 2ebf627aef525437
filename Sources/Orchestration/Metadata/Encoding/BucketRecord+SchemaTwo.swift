internal import Bytes
internal import Vocabulary

/// Reads buckets of single-node releases (schemas 1 and 2): rows of columns, no fences.
extension BucketRecord {
    private static let noColumn: UInt8 = 0xff

    /// Schema 1 also stored a storage backend, a conflict resolution, a replica index and a
    /// compression mode `active`; no release used them.
    init?(schemaTwo reader: inout ByteReader, _ schema: UInt16) {
        guard let name = reader.text(), let uuid = reader.text(),
            let type = reader.text().flatMap(BucketType.init(rawValue:)),
            let eviction = reader.text().flatMap(EvictionPolicy.init(rawValue:)),
            schema >= 2 || reader.text() != nil,
            let compression = reader.text(),
            schema >= 2 || reader.text() != nil,
            let quota = reader.leb128(), let replicas = reader.number(UInt8.self),
            let vBuckets = reader.number(UInt16.self), let maxTTL = reader.number(UInt32.self),
            let flush = reader.leb128(), let passwordless = reader.leb128(),
            schema >= 2 || reader.leb128() != nil, let rev = reader.leb128(),
            let servers = reader.list({ $0.number(UInt16.self) })
        else { return nil }
        var settings = BucketSettings(name: name, uuid: uuid, quota: quota)
        settings.type = type
        settings.evictionPolicy = eviction
        settings.replicas = Int(replicas)
        settings.vBuckets = Int(vBuckets)
        settings.maxTTL = maxTTL
        settings.flushEnabled = flush == 1
        settings.passwordless = passwordless == 1
        var options = BucketOptions()
        if let mode = BucketOptions.CompressionMode(rawValue: compression) {
            options.compressionMode = mode
        } else if schema >= 2 {
            return nil
        }
        guard let copies = reader.number(UInt8.self), let columns = reader.counted(),
            (1...NodeChain.countMax).contains(Int(copies)),
            columns.count == Int(copies) * Int(vBuckets)
        else { return nil }
        var placements: [VBucketPlacement] = []
        for row in 0..<Int(vBuckets) {
            let columns = columns[row * Int(copies)..<(row + 1) * Int(copies)]
            var nodes: [NodeNumber] = []
            for column in columns where column != Self.noColumn {
                guard servers.indices.contains(Int(column)), servers[Int(column)] < .max else {
                    return nil
                }
                nodes.append(NodeNumber(servers[Int(column)] + 1))
            }
            guard let chain = NodeChain(nodes) else { return nil }
            // The data files of these releases have no fence either: 0 matches theirs.
            placements.append(VBucketPlacement(chain: chain, copies: copies, index: 0))
        }
        self.init(settings: settings, options: options, placements: placements)
        self.rev = rev
    }
}
