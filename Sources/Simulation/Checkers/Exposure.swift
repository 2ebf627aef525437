internal import Orchestration
internal import Vocabulary

/// How many copies of a vBucket may have lost data since all vBuckets were last whole: the promise
/// of `majority` ends if that number is a majority.
///
/// - An upper bound: a node whose process ended, or that was failed over, counts for all vBuckets,
///   and the count resets only when all vBuckets are whole at once.
/// - A node counts once, since it has one copy of a vBucket.
/// - A vBucket is whole if its copies are a majority and all intact: each reached the active copy's
///   state after it last started, so every earlier acknowledged write is there again.
package struct Exposure {
    /// Hosts of nodes that lost data since everything was whole.
    private var lost: Set<String> = []
    /// The maximum of `losses` so far.
    package private(set) var worst = 0
    private var known: [String: Int] = [:]

    /// The number of nodes that lost data since everything was whole.
    package var losses: Int { lost.count }

    package init() {}

    /// Updates the losses; `events` has the process ends plus failovers of each host since the
    /// start.
    package mutating func update(events: [String: Int], _ isWhole: () -> Bool) {
        let news = events.filter { $0.value > known[$0.key] ?? 0 }.map(\.key)
        if !news.isEmpty {
            lost.formUnion(news)
            known = events
            worst = max(worst, losses)
        } else if !lost.isEmpty, isWhole() {
            lost = []
        }
    }

    /// Whether all vBuckets have a majority of copies, and all copies of the map are intact.
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
