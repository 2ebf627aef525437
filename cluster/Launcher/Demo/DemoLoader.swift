internal import Bytes
internal import Vocabulary

/// Stores documents where the map says they belong: one connection a node, many requests on their
/// way at a time.
struct DemoLoader {
    /// By node, as the map counts them.
    let clients: [MemcachedClient]
    /// The node that serves each vBucket.
    let active: [Int]

    private static let batch = 256
    /// The node is short of memory for now (kv.md: 0x86).
    private static let temporaryFailure: UInt16 = 0x86

    func load(_ documents: [DemoDocument]) throws {
        let byNode = Dictionary(grouping: documents) { document in
            active[Int(DemoLoader.vBucket(of: document.key, among: active.count))]
        }
        for (node, documents) in byNode.sorted(by: { $0.key < $1.key }) {
            guard clients.indices.contains(node) else {
                throw Refusal("The bucket demo has vBuckets that no node serves.")
            }
            try load(documents, to: clients[node])
        }
    }

    private func load(_ documents: [DemoDocument], to client: MemcachedClient) throws {
        var left = documents[...]
        while !left.isEmpty {
            let refused = try store(left.prefix(DemoLoader.batch), to: client)
            left = left.dropFirst(DemoLoader.batch)
            // Short of memory, the node says "later": it is flushing, so wait for it.
            if !refused.isEmpty {
                left = refused + left
                pause(milliseconds: 20)
            }
        }
    }

    /// Stores a batch; what the node could not take just now is returned.
    private func store(
        _ batch: ArraySlice<DemoDocument>,
        to client: MemcachedClient
    ) throws -> ArraySlice<DemoDocument> {
        let frames = ByteWriter(capacity: 256 << 10)
        for document in batch { DemoLoader.append(document, vBuckets: active.count, to: frames) }
        try client.socket.send(frames.bytes)
        var refused: ArraySlice<DemoDocument> = []
        for document in batch {
            let reply = try client.receive()
            switch reply.status {
            case 0: break
            case DemoLoader.temporaryFailure: refused.append(document)
            default:
                let key = String(decoding: document.key, as: UTF8.self)
                throw Refusal("\(key) was refused with status \(reply.status).")
            }
        }
        return refused
    }

    /// Appends the SET that stores `document`.
    private static func append(_ document: DemoDocument, vBuckets: Int, to frames: ByteWriter) {
        MemcachedClient.append(
            .set,
            key: document.key,
            // The flags by which the official clients mark JSON; no expiry.
            extras: [2, 0, 0, 0, 0, 0, 0, 0],
            value: document.json,
            vBucket: vBucket(of: document.key, among: vBuckets),
            to: frames
        )
    }

    private static func vBucket(of key: [UInt8], among count: Int) -> UInt16 {
        key.withUnsafeBytes { VBucketID(ofKey: ByteView($0), count: count).number }
    }
}
