internal import Bytes
internal import ClusterService
internal import Orchestration
internal import SimulatedPlatform
internal import Vocabulary

/// Puts and deletes design documents of the run's buckets during faults, one pair of requests every
/// few seconds, each of a random node.
///
/// One seed in eight, because other seeds should have states without design documents. Under
/// `quota-storm` every fourth seed, with documents so large that most pairs exceed what the cluster
/// may have together. The random numbers are a separate sequence.
final class DesignAuthor {
    private static let second: UInt64 = 1_000_000_000
    private static let names = ["one", "two", "dev_one", "dev_two", "three", "four"]

    private let cluster: SimulatedCluster
    private let isLarge: Bool
    private var dice: SeededRandom
    private var isOver = false

    /// - Returns: Nil if the seed has no design documents.
    init?(_ cluster: SimulatedCluster, workload: String, seed: UInt64) {
        isLarge = workload == "quota-storm"
        guard isLarge ? seed % 4 == 1 : seed % 8 == 3 else { return nil }
        self.cluster = cluster
        dice = SeededRandom(seed: seed ^ 0x6465_7369_676e)
    }

    func start() {
        let pause = DesignAuthor.second + dice.next() % (6 * DesignAuthor.second)
        cluster.world.after(pause) { [weak self] in
            guard let self, !isOver else { return }
            request()
            if pick(2) == 0 { request() }
            start()
        }
    }

    func end() { isOver = true }

    private func pick(_ count: Int) -> Int { Int(dice.next() % UInt64(count)) }

    private func request() {
        let able = cluster.nodes.filter { $0.isInCluster && !$0.host.isFrozen }
        let buckets = cluster.newestState?.buckets.map(\.settings.name) ?? []
        guard !able.isEmpty, !buckets.isEmpty else { return }
        let node = able[pick(able.count)]
        let (bucket, name) = (buckets[pick(buckets.count)], Self.names[pick(Self.names.count)])
        let what = "design document \(name) of \(bucket)"
        if pick(4) == 0 {
            cluster.submit(node, "delete \(what)") { service in
                try await service.designDocuments.deleteDesignDocument(name, inBucket: bucket)
                return "deleted"
            }
        } else {
            let body = text()
            cluster.submit(node, "put \(what)") { service in
                let document = try await service.designDocuments.putDesignDocument(
                    name,
                    body: body,
                    inBucket: bucket
                )
                return "\(document.revision), \(document.byteCount) bytes"
            }
        }
    }

    /// A document of a hundred bytes, or of most of what one may have; one in four equals another.
    private func text() -> [UInt8] {
        let number = pick(4) == 0 ? 0 : pick(1_000)
        let bytes = isLarge ? Limits.designDocumentBytesMax - 1_000 - pick(200_000) : 20
        let padding = String(repeating: "x", count: bytes)
        let map = "function (doc, meta) { emit(\(number), null); }"
        return Array(
            #"{"views":{"v":{"map":"\#(map)","reduce":"_count"}},"note":"\#(padding)"}"#.utf8
        )
    }
}
