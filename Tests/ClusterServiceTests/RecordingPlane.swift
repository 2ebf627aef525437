import Bytes
import ClusterService
import Credentials
import Orchestration
import Vocabulary

/// A data plane that records its calls in order; opening and flushing fail for refused buckets.
final class RecordingPlane: DataPlane {
    struct Record: Sendable {
        var calls: [String] = []
        var statistics: [String: BucketStatistics] = [:]
        var status: [String: BucketStatus] = [:]
        var users: [String: StoredCredentials] = [:]
        var grants: [String: Grants] = [:]
        var alerts: [Alert] = []
        var refused: Set<String> = []
        /// Runs at every call, to inspect the state at that moment.
        var witness: (@Sendable (String) -> Void)?
    }

    let record = Guarded(Record())

    var calls: [String] { record.withLock { $0.calls } }

    private func note(_ call: String) {
        let witness = record.withLock { record in
            record.calls.append(call)
            return record.witness
        }
        witness?(call)
    }

    func retain(only buckets: [BucketSettings]) {
        note("retain " + buckets.map(\.uuid).joined(separator: ","))
    }

    private let maps = Guarded<[String: BucketAssignment]>([:])
    /// Each lease that was set, with the maps at that moment.
    let leases = Guarded<[(endNanoseconds: UInt64, maps: [String: BucketAssignment])]>([])
    /// The last fence of which copies here received changes from the active copy.
    let heardThrough = Guarded(UInt64.max)
    /// The last fence that copies here have carried out.
    let carriedThrough = Guarded(UInt64.max)

    /// Whether a sealed copy stops serving until its vBucket has another fence.
    let stopsAtSeal = Guarded(false)
    /// By vBucket: the fence of which a copy was sealed while `stopsAtSeal` was set.
    private let stopped = Guarded<[VBucketID: UInt64]>([:])

    private func hasStopped(_ vBucket: VBucketID, fence: UInt64) -> Bool {
        stopped.withLock { $0[vBucket] } == fence
    }

    /// Run at every seal and at every beat, on the node's control lane: while one of them runs, the
    /// node is silent.
    let sealing = Guarded<(@Sendable () -> Void)?>(nil)
    let beating = Guarded<(@Sendable () -> Void)?>(nil)

    /// Whether copies here wait to be activated.
    let isPending = Guarded(false)

    /// Whether copies here are never built.
    let isEmpty = Guarded(false)

    let openings = Guarded<[BucketOpening]>([])

    func open(_ opening: BucketOpening) throws(DataPlaneError) {
        let settings = opening.settings
        openings.withLock { $0.append(opening) }
        maps.withLock { $0[settings.name] = opening.assignment }
        note("open \(settings.name)")
        let isRefused = record.withLock { $0.refused.contains(settings.name) }
        if isRefused { throw DataPlaneError("no room for \(settings.name)") }
        record.withLock { $0.status[settings.name] = .ready }
    }

    func change(_ settings: BucketSettings) { note("change \(settings.name)") }

    func delete(bucket name: String) {
        note("delete \(name)")
        record.withLock { $0.status[name] = nil }
    }

    func giveUp(bucket name: String) {
        note("give up \(name)")
        record.withLock { $0.status[name] = nil }
    }

    func flush(bucket name: String) throws(DataPlaneError) {
        note("flush \(name)")
        let isRefused = record.withLock { $0.refused.contains(name) }
        if isRefused { throw DataPlaneError("no room for \(name)") }
    }

    /// Whether a requested compaction does not begin, as while the bucket is loaded.
    let refusesCompaction = Guarded(false)
    let compactions = Guarded<[String: CompactionWork]>([:])

    func compact(bucket name: String) -> Bool {
        note("compact \(name)")
        return !refusesCompaction.withLock { $0 }
    }

    func cancelCompaction(ofBucket name: String) { note("cancel compaction of \(name)") }

    func compaction(ofBucket name: String) -> CompactionWork? {
        compactions.withLock { $0[name] }
    }

    func purgeTombstones(ofBucket name: String) -> Bool {
        note("purge \(name)")
        return record.withLock { $0.status[name] } == .ready
    }

    func status(ofBucket name: String) -> BucketStatus? { record.withLock { $0.status[name] } }

    func latencies(ofBucket name: String) -> [LatencyReading] { [] }

    func statistics(ofBucket name: String) -> BucketStatistics? {
        record.withLock { $0.statistics[name] }
    }

    func replicationBacklog(ofBucket name: String) -> [NodeNumber: UInt64] { [:] }

    func publish(global configuration: RenderedConfiguration) {
        note("publish global \(configuration.epoch).\(configuration.revision)")
    }

    func publish(_ configuration: RenderedConfiguration, ofBucket name: String) {
        note("publish \(name) \(configuration.epoch).\(configuration.revision)")
    }

    func setCredentials(user: String, stored: StoredCredentials?, grants: Grants) {
        record.withLock { record in
            record.users[user] = stored
            record.grants[user] = stored == nil ? nil : grants
        }
        note("user \(user) \(stored == nil ? "may not" : "may") log in")
    }

    func perform(
        _ action: DocumentAction,
        on key: [UInt8],
        inBucket name: String
    ) async -> DocumentOutcome { .noBucket }

    func list(
        bucket: String,
        from: [UInt8]?,
        to: [UInt8]?,
        inclusiveEnd: Bool,
        skip: Int,
        limit: Int
    ) async -> KeyListing { .noBucket }

    /// Some node asks for it, or this one.
    let key = Guarded<[UInt8]?>(nil)

    func randomKey(inBucket name: String) -> [UInt8]? { key.withLock { $0 } }

    func alerts() -> [Alert] { record.withLock { $0.alerts } }

    // MARK: Copies

    /// Seals that were passed to `follow`.
    let keptSeals = Guarded<[FencedVBucket]>([])

    func follow(_ assignment: BucketAssignment, as own: NodeNumber, seals: [FencedVBucket]) {
        maps.withLock { $0[assignment.name] = assignment }
        keptSeals.withLock { $0 += seals }
    }

    /// How often the leader asked for reports, without seals.
    let reportCount = Guarded(0)

    /// Reports copies as the map says, with changes of their active copy through `heardThrough`.
    func reports(bucket name: String, of vBuckets: [VBucketID]?) -> [CopyReport] {
        reportCount.withLock { $0 += 1 }
        return copies(bucket: name, of: vBuckets)
    }

    private func copies(bucket name: String, of vBuckets: [VBucketID]?) -> [CopyReport] {
        guard let map = maps.withLock({ $0[name] }) else { return [] }
        let heard = heardThrough.withLock { $0 }
        let carried = carriedThrough.withLock { $0 }
        let isEmpty = isEmpty.withLock { $0 }
        let isPending = isPending.withLock { $0 }
        return map.vBuckets.enumerated().compactMap { number, one in
            let vBucket = VBucketID(UInt16(number))
            if vBuckets?.contains(vBucket) == false { return nil }
            let isStopped = isPending || hasStopped(vBucket, fence: one.fence)
            return CopyReport(
                vBucket: vBucket,
                state: isStopped ? .pending : .active,
                fence: min(one.fence, carried),
                position: CopyPosition(branchFence: isEmpty ? 0 : one.fence, covered: .zero),
                high: .zero,
                persisted: .zero,
                isIntact: one.branch <= heard,
                hasCaughtUp: one.fence <= heard,
                wasCleanStop: true,
                boot: 1
            )
        }
    }

    let highs = Guarded<[String: ActiveSeqnoDigest]>([:])
    let discarded = Guarded<[String: UInt64]>([:])

    func served(bucket name: String) -> ActiveSeqnoDigest? { highs.withLock { $0[name] } }

    func removeDiscardedCounts() -> [String: UInt64] {
        discarded.withLock { counts in
            defer { counts = [:] }
            return counts
        }
    }

    func seal(bucket name: String, _ vBuckets: [FencedVBucket]) -> [CopyReport] {
        sealing.withLock { $0 }?()
        if stopsAtSeal.withLock({ $0 }) {
            stopped.withLock { stopped in for one in vBuckets { stopped[one.vBucket] = one.fence } }
        }
        return copies(bucket: name, of: vBuckets.map(\.vBucket))
    }

    func activate(bucket name: String, _ copies: [CopyActivation]) -> [VBucketID] {
        copies.map(\.vBucket)
    }

    func handOver(
        bucket name: String,
        _ vBuckets: [FencedVBucket],
        done: @escaping @Sendable ([VBucketID: HandOverOutcome]) -> Void
    ) { done([:]) }

    func setLease(endNanoseconds: UInt64) {
        let maps = maps.withLock { $0 }
        leases.withLock { $0.append((endNanoseconds, maps)) }
    }

    var isReady: Bool {
        beating.withLock { $0 }?()
        if isPending.withLock({ $0 }) { return false }
        let maps = maps.withLock { $0 }
        return !maps.values.contains { map in
            map.vBuckets.enumerated().contains { number, one in
                hasStopped(VBucketID(UInt16(number)), fence: one.fence)
            }
        }
    }
}
