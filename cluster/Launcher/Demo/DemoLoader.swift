internal import DivanClient

/// Stores the demo's documents through the client library, many at a time: nodes may come and go.
struct DemoLoader {
    let client: BucketClient

    private static let batch = 512
    /// By these flags the official clients know JSON.
    private static let json: UInt32 = 0x0200_0000

    func load(_ documents: [DemoDocument]) throws {
        var options = WriteOptions()
        options.flags = DemoLoader.json
        // Nodes that are short of memory say "later", and vBuckets move: there is time for both.
        options.patience = .milliseconds(30_000)
        var left = documents[...]
        while !left.isEmpty {
            let failed = client.store(left.prefix(DemoLoader.batch), options)
            left = left.dropFirst(DemoLoader.batch)
            if let (document, error) = failed.first(where: { !$0.error.isAmbiguous }) {
                let key = String(decoding: document.key, as: UTF8.self)
                throw Refusal(
                    "\(key) could not be stored: \(error)",
                    cure: "cluster/status says how the nodes are."
                )
            }
            // Whether it is there or not: the same document once more does no harm.
            left = failed.map(\.document) + left
        }
    }
}
