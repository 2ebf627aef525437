internal import Orchestration
internal import Vocabulary

/// How many copies of anything may have lost what they had since all of it was last held by as many
/// copies as a majority is: what `majority` promises ends where that is a majority.
///
/// - Counted too high rather than too low: a node whose process ended, or that was failed over,
///   counts for all vBuckets, and whole they are only when all of them are at once.
/// - A node counts once, whatever happens to it: of one vBucket it has one copy.
/// - Whole is a vBucket whose copies are a majority and all intact: each reached what the active one
///   had after it last began, so that what was acknowledged before is there again.
package struct Exposure {
    /// Hosts of nodes that lost something since everything was whole.
    private var lost: Set<String> = []
    /// The most that ever were at once.
    package private(set) var worst = 0
    private var known: [String: Int] = [:]

    /// Nodes that lost something since everything was whole.
    package var losses: Int { lost.count }

    package init() {}

    /// `events`: ends of each node's process and failovers of it, since the beginning.
    package mutating func look(events: [String: Int], _ isWhole: () -> Bool) {
        let news = events.filter { $0.value > known[$0.key] ?? 0 }.map(\.key)
        if !news.isEmpty {
            lost.formUnion(news)
            known = events
            worst = max(worst, losses)
        } else if !lost.isEmpty, isWhole() {
            lost = []
        }
    }

    /// Whether all vBuckets have a majority of copies, and those that the map names are intact.
    static func isWhole(
        _ state: ClusterState,
        _ reports: (NodeNumber, BucketRecord) -> [CopyReport]
    ) -> Bool {
        for bucket in state.buckets {
            for placement in bucket.placements {
                let majority = Int(placement.copies) / 2 + 1
                guard placement.isConfirmed, !placement.isJoint, placement.former == nil,
                    placement.chain.count >= majority
                else { return false }
            }
        }
        for bucket in state.buckets {
            let owners = Set(bucket.placements.flatMap(\.chain.nodes))
            let copies = Dictionary(uniqueKeysWithValues: owners.map { ($0, reports($0, bucket)) })
            for (number, placement) in bucket.placements.enumerated() {
                for node in placement.chain.nodes {
                    let report = copies[node]?.first { Int($0.vBucket.number) == number }
                    guard let report, report.fence == placement.fence, report.isIntact,
                        report.state == (node == placement.chain.first ? .active : .replica)
                    else { return false }
                }
            }
        }
        return true
    }
}
