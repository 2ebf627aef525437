internal import Bytes
internal import ClusterService
internal import DataService
internal import Orchestration
internal import Persistence
internal import Vocabulary

/// Whether every active copy of the map serves and no copy is sealed or pending.
///
/// A positive result is cached until `invalidate`, which every call that may change it makes.
final class Readiness: Sendable {
    private let isReady = Guarded(false)

    /// Whether the node is ready; checks the copies only if the last result was negative or is
    /// invalid.
    func check(_ data: DocumentService) -> Bool {
        isReady.withLock { isReady in
            if !isReady {
                isReady = data.buckets.map(\.totals).allSatisfy {
                    $0[.pendingVBuckets] == 0 && $0[.sealedVBuckets] == 0
                }
            }
            return isReady
        }
    }

    /// Invalidates the cached result.
    func invalidate() { isReady.withLock { $0 = false } }
}

/// Ownership of vBuckets: the cluster service's calls, forwarded to the data service.
extension DataPlaneAdapter {
    func open(_ opening: BucketOpening) throws(DataPlaneError) {
        try translate { () throws(StorageError) in
            try data.open(
                opening.settings,
                opening.assignment,
                as: opening.own,
                isNew: opening.isNew,
                isCurrent: opening.isCurrent,
                seals: opening.seals.map { ($0.vBucket, $0.fence) }
            )
        }
        readiness.invalidate()
    }

    func follow(_ assignment: BucketAssignment, as own: NodeNumber, seals: [FencedVBucket]) {
        data.applyMap(assignment, as: own, seals: seals.map { ($0.vBucket, $0.fence) })
        readiness.invalidate()
    }

    func reports(bucket name: String, of vBuckets: [VBucketID]?) -> [CopyReport] {
        data.reports(name, of: vBuckets)
    }

    func served(bucket name: String) -> ActiveSeqnoDigest? { data.served(name) }

    func replicationBacklog(ofBucket name: String) -> [NodeNumber: UInt64] {
        data.bucket(named: name)?.replicationBacklog ?? [:]
    }

    func removeDiscardedCounts() -> [String: UInt64] { data.removeDiscardedCounts() }

    func seal(bucket name: String, _ vBuckets: [FencedVBucket]) -> [CopyReport] {
        let reports = data.seal(name, vBuckets.map { ($0.vBucket, $0.fence) })
        readiness.invalidate()
        return reports
    }

    func activate(bucket name: String, _ copies: [CopyActivation]) -> [VBucketID] {
        let outcomes = data.activate(name, copies)
        readiness.invalidate()
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
        for fenced in vBuckets {
            data.handOver(name, fenced.vBucket, fence: fenced.fence) { [readiness] outcome in
                // A drained copy is not ready until the next active copy is activated.
                readiness.invalidate()
                let all: [VBucketID: HandOverOutcome]? = gathered.withLock { gathered in
                    gathered.left -= 1
                    gathered.outcomes[fenced.vBucket] = outcome
                    return gathered.left == 0 ? gathered.outcomes : nil
                }
                if let all { done(all) }
            }
        }
    }

    func setLease(endNanoseconds: UInt64) { data.setLease(endNanoseconds: endNanoseconds) }

    var isReady: Bool { readiness.check(data) }
}
