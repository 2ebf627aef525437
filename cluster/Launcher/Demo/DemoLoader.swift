internal import DivanClient

/// Stores the demo's documents through the client library, many at a time, while nodes may be added
/// or fail.
struct DemoLoader {
    let client: BucketClient

    private static let batch = 512
    /// The flags by which official clients recognise JSON.
    private static let json: UInt32 = 0x0200_0000

    func load(_ documents: [DemoDocument]) throws {
        var options = WriteOptions()
        options.flags = DemoLoader.json
        // Long enough for temporary failures of nodes short of memory, and for moving vBuckets.
        options.timeout = .milliseconds(30_000)
        var left = documents[...]
        while !left.isEmpty {
            let failed = client.store(left.prefix(DemoLoader.batch), options)
            left = left.dropFirst(DemoLoader.batch)
            if let (document, error) = failed.first(where: { !$0.error.isAmbiguous }) {
                let key = String(decoding: document.key, as: UTF8.self)
                throw Refusal(
                    "\(key) could not be stored: \(error)",
                    cure: "cluster/status shows the state of the nodes."
                )
            }
            // The write may have been applied: storing the same document again does no harm.
            left = failed.map(\.document) + left
        }
    }
}
