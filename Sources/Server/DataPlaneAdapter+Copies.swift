internal import Bytes
internal import ClusterService
internal import DataService
internal import Persistence
internal import Seams
internal import Vocabulary

/// Whether all copies serve that the map has serve, and the others may follow them: looked at when
/// that may have changed.
final class Readiness: Sendable {
    private let isReady = Guarded(false)

    /// Looks again where it was not so the last time.
    func look(_ data: DocumentService) -> Bool {
        isReady.withLock { isReady in
            if !isReady {
                isReady = data.buckets.map(\.totals).allSatisfy {
                    $0.pendingVBuckets == 0 && $0.sealedVBuckets == 0
                }
            }
            return isReady
        }
    }

    func mayHaveChanged() { isReady.withLock { $0 = false } }
}

/// Who owns a vBucket, as the cluster service asks for it.
extension DataPlaneAdapter {
    func open(_ opening: BucketOpening) throws(DataPlaneError) {
        do throws(StorageError) {
            try data.open(
                opening.settings,
                opening.assignment,
                as: opening.own,
                isNew: opening.isNew,
                isCurrent: opening.isCurrent,
                seals: opening.seals.map { ($0.vBucket, $0.fence) }
            )
        } catch {
            throw DataPlaneError(error.description)
        }
        readiness.mayHaveChanged()
    }

    func follow(_ assignment: BucketAssignment, as own: NodeNumber, seals: [FencedVBucket]) {
        data.follow(assignment, as: own, seals: seals.map { ($0.vBucket, $0.fence) })
        readiness.mayHaveChanged()
    }

    func reports(bucket name: String, of vBuckets: [VBucketID]?) -> [CopyReport] {
        data.reports(name, of: vBuckets)
    }

    func served(bucket name: String) -> ServedHighs? { data.served(name) }

    func takeDiscarded() -> [String: UInt64] { data.takeDiscarded() }

    func seal(bucket name: String, _ vBuckets: [FencedVBucket]) -> [CopyReport] {
        let reports = data.seal(name, vBuckets.map { ($0.vBucket, $0.fence) })
        readiness.mayHaveChanged()
        return reports
    }

    func activate(bucket name: String, _ copies: [CopyActivation]) -> [VBucketID] {
        let outcomes = data.activate(name, copies)
        readiness.mayHaveChanged()
        return outcomes.compactMap { outcome in
            if case .ready(let report) = outcome { return report.vBucket }
            return nil
        }
    }

    func handOver(
        bucket name: String,
        _ vBuckets: [FencedVBucket],
        done: @escaping @Sendable ([VBucketID: HandOverOutcome]) -> Void
    ) {
        let gathered = Guarded((left: vBuckets.count, outcomes: [VBucketID: HandOverOutcome]()))
        guard !vBuckets.isEmpty else { return done([:]) }
        for one in vBuckets {
            data.handOver(name, one.vBucket, fence: one.fence) { [readiness] outcome in
                // A drained copy waits for the activation of the next active copy.
                readiness.mayHaveChanged()
                let all: [VBucketID: HandOverOutcome]? = gathered.withLock { gathered in
                    gathered.left -= 1
                    gathered.outcomes[one.vBucket] = outcome
                    return gathered.left == 0 ? gathered.outcomes : nil
                }
                if let all { done(all) }
            }
        }
    }

    func setLease(endNanoseconds: UInt64) { data.setLease(endNanoseconds: endNanoseconds) }

    var isReady: Bool { readiness.look(data) }
}
