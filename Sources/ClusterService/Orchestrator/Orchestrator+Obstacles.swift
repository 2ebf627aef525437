internal import Orchestration
internal import Vocabulary

/// What it rests on that nobody but failed-over nodes has anything of a vBucket, as copies said: where
/// any of this is not so any more, they are asked again.
///
/// A missed answer says nothing new.
struct Abandonment: Hashable, Sendable {
    let fence: UInt64
    let stage: UInt64
    let failedOver: Set<NodeNumber>
    /// Who is taken out by one is not waited for.
    let rebalance: String?
}

/// What keeps a rebalance from going on, and what that rests on.
extension Orchestrator {
    /// What has to be over before vBuckets of this bucket can be moved, by number.
    func obstacles(in bucket: BucketRecord) -> [RowObstacle] {
        forgetAbandoned()
        let failedOver = failedOver
        let abandoned = abandoned[bucket.settings.name] ?? [:]
        return bucket.placements.enumerated().compactMap { number, placement in
            let vBucket = VBucketID(UInt16(number))
            return RowObstacle(
                vBucket,
                placement,
                failedOver: failedOver,
                isAbandoned: abandoned[vBucket] != nil
            )
        }
    }

    func sentence(_ obstacle: RowObstacle, _ bucket: String) -> String {
        obstacle.sentence(bucket: bucket, naming: { name($0) })
    }

    /// Whether a vBucket is left to those who were failed over, as far as this answer tells.
    ///
    /// - Parameters:
    ///   - question: What was asked.
    ///   - bucket: Of which bucket.
    ///   - choice: What came of it.
    ///   - isAnswered: By everybody.
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
