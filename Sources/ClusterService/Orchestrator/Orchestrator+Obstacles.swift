internal import Orchestration
internal import Vocabulary

/// Preconditions for concluding that only failed-over nodes hold data of a vBucket.
///
/// If one of them changes, the copies are asked again. A missing answer changes nothing.
struct Abandonment: Hashable, Sendable {
    let fence: UInt64
    let stage: UInt64
    let failedOver: Set<NodeNumber>
    /// A failed-over node that this rebalance removes is not waited for.
    let rebalance: String?
}

/// The obstacles to a rebalance, and the vBuckets of which only failed-over nodes may have data.
extension Orchestrator {
    /// The obstacles to moves of this bucket's vBuckets, sorted by vBucket number.
    func obstacles(in bucket: BucketRecord) -> [RowObstacle] {
        forgetAbandoned()
        let failedOver = failedOver
        let abandoned = abandoned[bucket.settings.name] ?? [:]
        return bucket.numberedPlacements.compactMap { vBucket, placement in
            RowObstacle(
                vBucket,
                placement,
                failedOver: failedOver,
                isAbandoned: abandoned[vBucket] != nil
            )
        }
    }

    /// vBuckets of which only failed-over nodes may have data.
    func abandonedVBuckets(in bucket: BucketRecord) -> Set<VBucketID> {
        let abandoned = obstacles(in: bucket).filter { obstacle in
            if case .abandoned = obstacle.cause { true } else { false }
        }
        return Set(abandoned.map(\.vBucket))
    }

    func sentence(_ obstacle: RowObstacle, _ bucket: String) -> String {
        obstacle.sentence(bucket: bucket, naming: { name($0) })
    }

    /// Records whether only failed-over nodes may have data of a vBucket, by one set of
    /// answers.
    ///
    /// - Parameters:
    ///   - question: The question that was asked.
    ///   - bucket: The bucket's name.
    ///   - choice: The possible promotion; nil if no answering node has data.
    ///   - isAnswered: Whether all asked nodes answered.
    func noteAbandoned(
        _ question: Promotion.Question,
        _ bucket: String,
        _ choice: Promotion?,
        isAnswered: Bool
    ) {
        if choice != nil {
            abandoned[bucket]?[question.vBucket] = nil
        } else if isAnswered {
            abandoned[bucket, default: [:]][question.vBucket] = Abandonment(
                fence: question.fence,
                stage: question.stage,
                failedOver: question.lost,
                rebalance: state.rebalance?.id
            )
        }
    }

    private func forgetAbandoned() {
        let (failedOver, rebalance) = (failedOver, state.rebalance?.id)
        for (name, claims) in abandoned {
            let placements = state.bucket(named: name)?.placements ?? []
            let left = claims.filter { vBucket, claim in
                guard placements.indices.contains(Int(vBucket.number)) else { return false }
                let placement = placements[Int(vBucket.number)]
                return claim
                    == Abandonment(
                        fence: placement.fence,
                        stage: placement.stage,
                        failedOver: failedOver,
                        rebalance: rebalance
                    )
            }
            abandoned[name] = left.isEmpty ? nil : left
        }
    }
}
