internal import Bytes
internal import Engine
internal import Seams
internal import Vocabulary

/// The key of a random document of this node, for clients that show a sample of a bucket.
package struct RandomKey {
    /// Which documents count.
    package enum Choice {
        /// Those of every copy.
        case anyCopy
        /// Those of active copies; one with its value in memory is preferred.
        case activeCopy
    }

    /// The most groups of hash table slots that a search visits.
    ///
    /// The bound matters for a bucket whose table has only tombstones, or whose documents are only
    /// on disk.
    private static let groupsMax = 1 << 16
    private static let groupsAtATime = 16

    private let environment: Environment

    package init(_ data: DocumentService) {
        environment = data.environment
    }

    /// The key of a live document in memory; nil if the search finds none.
    package func find(in bucket: OpenBucket, _ choice: Choice) -> [UInt8]? {
        let dice = environment.entropy
        let now = UInt32(truncatingIfNeeded: environment.time.wallNanoseconds() / 1_000_000_000)
        let vBuckets = bucket.engine.all
        let first = Int(dice.next() % UInt64(vBuckets.count))
        var (groups, ejected) = (0, [UInt8]?.none)
        for index in 0..<vBuckets.count {
            let vBucket = vBuckets[(first + index) % vBuckets.count]
            for start in [dice.next(), 0] {
                var place: UInt64? = start
                while let from = place, groups < Self.groupsMax {
                    groups += Self.groupsAtATime
                    var found: [UInt8]?
                    place = vBucket.withCore { core in
                        guard choice == .anyCopy || core.state == .active else { return nil }
                        return core.table.visit(from: from, groupsMax: Self.groupsAtATime) { item in
                            let isDue = item.expiry != 0 && item.expiry <= now
                            guard found == nil, !item.isDeleted, !isDue else { return }
                            if choice == .anyCopy || !item.isEjected {
                                found = item.key.bytes
                            } else if ejected == nil {
                                ejected = item.key.bytes
                            }
                        }
                    }
                    if let found { return found }
                }
            }
        }
        return ejected
    }
}
