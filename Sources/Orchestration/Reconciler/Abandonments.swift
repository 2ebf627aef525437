internal import Vocabulary

/// vBuckets of which only failed-over nodes may have data, by the answers of all other nodes.
///
/// Each conclusion has its preconditions: if one of them changes, the copies are asked again. A missing answer
/// changes nothing.
struct Abandonments: Sendable {
    /// The preconditions of one conclusion.
    private struct Precondition: Hashable, Sendable {
        let fence: UInt64
        let stage: UInt64
        let failedOver: Set<NodeNumber>
        /// A failed-over node that this rebalance removes is not waited for.
        let rebalance: String?
    }

    private var conclusions: [String: [VBucketID: Precondition]] = [:]

    /// Records whether only failed-over nodes may have data of a vBucket, by one set of
    /// answers.
    ///
    /// - Parameters:
    ///   - question: The question that was asked.
    ///   - name: The bucket's name.
    ///   - hasChoice: Whether an answering node has data.
    ///   - isAnswered: Whether all asked nodes answered.
    ///   - state: The agreed state.
    mutating func record(
        _ question: Promotion.Question,
        ofBucket name: String,
        hasChoice: Bool,
        isAnswered: Bool,
        _ state: ClusterState
    ) {
        if hasChoice {
            conclusions[name]?[question.vBucket] = nil
        } else if isAnswered {
            conclusions[name, default: [:]][question.vBucket] = Precondition(
                fence: question.fence,
                stage: question.stage,
                failedOver: question.lost,
                rebalance: state.rebalance?.id
            )
        }
    }

    /// The vBuckets of a bucket whose conclusions still hold; drops the others.
    mutating func vBuckets(of bucket: BucketRecord, _ view: LeaderView) -> Set<VBucketID> {
        let name = bucket.settings.name
        guard let before = conclusions[name] else { return [] }
        let (failedOver, rebalance) = (view.failedOver, view.state.rebalance?.id)
        let left = before.filter { vBucket, precondition in
            guard bucket.placements.indices.contains(Int(vBucket.number)) else { return false }
            let placement = bucket[vBucket]
            return precondition
                == Precondition(
                    fence: placement.fence,
                    stage: placement.stage,
                    failedOver: failedOver,
                    rebalance: rebalance
                )
        }
        conclusions[name] = left.isEmpty ? nil : left
        return Set(left.keys)
    }

    /// The obstacles to moves of this bucket's vBuckets, sorted by vBucket number.
    mutating func obstacles(in bucket: BucketRecord, _ view: LeaderView) -> [RowObstacle] {
        let abandoned = vBuckets(of: bucket, view)
        let failedOver = view.failedOver
        return bucket.numberedPlacements.compactMap { vBucket, placement in
            RowObstacle(
                vBucket,
                placement,
                failedOver: failedOver,
                isAbandoned: abandoned.contains(vBucket)
            )
        }
    }
}
