internal import Bytes
internal import DataService
internal import Engine
internal import Seams

/// The key of a random document, for tools that show a sample of a bucket.
struct RandomKey {
    /// The most groups of hash table slots that a search visits.
    ///
    /// The bound matters for a bucket whose table has only tombstones, or whose documents are only
    /// on disk.
    private static let groupsMax = 1 << 16
    private static let groupsAtATime = 16

    let data: DocumentService

    /// The key of a live document in memory; nil if the search finds none.
    func find(in bucket: OpenBucket) -> [UInt8]? {
        let dice = data.environment.entropy
        let now = UInt32(
            truncatingIfNeeded: data.environment.time.wallNanoseconds() / 1_000_000_000
        )
        let vBuckets = bucket.engine.all
        let first = Int(dice.next() % UInt64(vBuckets.count))
        var groups = 0
        for index in 0..<vBuckets.count {
            let vBucket = vBuckets[(first + index) % vBuckets.count]
            for start in [dice.next(), 0] {
                var place: UInt64? = start
                while let from = place, groups < Self.groupsMax {
                    groups += Self.groupsAtATime
                    var found: [UInt8]?
                    place = vBucket.withCore { core in
                        core.table.visit(from: from, groupsMax: Self.groupsAtATime) { item in
                            let isDue = item.expiry != 0 && item.expiry <= now
                            if found == nil, !item.isDeleted, !isDue { found = item.key.bytes }
                        }
                    }
                    if let found { return found }
                }
            }
        }
        return nil
    }
}
