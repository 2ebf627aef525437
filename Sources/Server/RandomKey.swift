internal import Bytes
internal import DataService
internal import Engine
internal import Seams

/// Some document of a bucket, for tools that want to show what a document looks like.
struct RandomKey {
    /// Groups of slots looked at before giving up: a bucket of nothing but tombstones, or of
    /// documents on disk only, is not searched to its end for a sample.
    private static let groupsMax = 1 << 16
    private static let groupsAtATime = 16

    let data: DocumentService

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
