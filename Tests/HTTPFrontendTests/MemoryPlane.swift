import Bytes
import ClusterService
import Credentials
import Orchestration
import Vocabulary

/// A data service in memory that stores, counts and lists documents.
final class MemoryPlane: DataPlane {
    struct Document: Sendable {
        var meta: DocumentMeta
        var value: [UInt8]
    }

    struct Bucket: Sendable {
        var settings: BucketSettings
        var documents: [[UInt8]: Document] = [:]
        var statistics = BucketStatistics()
        var status = BucketStatus.ready
        var lastCAS: UInt64 = 0
        /// A compaction that a test lets run.
        var compaction: CompactionWork?
    }

    let buckets = Guarded<[String: Bucket]>([:])
    let alarm = Guarded<[Alert]>([])
    /// Keys whose reads fail with a temporary failure.
    let unreadable = Guarded<Set<String>>([])
    /// Answers every operation on a document with this, as a faulty node might.
    let outcome = Guarded<DocumentOutcome?>(nil)
    /// How often the statistics of a bucket were read.
    let statisticsReadCount = Guarded(0)

    func retain(only buckets: [BucketSettings]) {}

    private let maps = Guarded<[String: BucketAssignment]>([:])

    func open(_ opening: BucketOpening) throws(DataPlaneError) {
        let settings = opening.settings
        maps.withLock { $0[settings.name] = opening.assignment }
        buckets.withLock { $0[settings.name] = Bucket(settings: settings) }
    }

    func change(_ settings: BucketSettings) {
        buckets.withLock { $0[settings.name]?.settings = settings }
    }

    func delete(bucket name: String) { buckets.withLock { $0[name] = nil } }
    func giveUp(bucket name: String) { delete(bucket: name) }

    func flush(bucket name: String) throws(DataPlaneError) {
        buckets.withLock { $0[name]?.documents = [:] }
    }

    /// Whether a requested compaction does not begin, as while the bucket is loaded.
    let refusesCompaction = Guarded(false)

    func compact(bucket name: String) -> Bool {
        guard !refusesCompaction.withLock({ $0 }) else { return false }
        buckets.withLock { $0[name]?.compaction = CompactionWork(done: 0, total: 40) }
        return true
    }

    func cancelCompaction(ofBucket name: String) {
        buckets.withLock { $0[name]?.compaction = nil }
    }

    func compaction(ofBucket name: String) -> CompactionWork? {
        buckets.withLock { $0[name]?.compaction }
    }

    func purgeTombstones(ofBucket name: String) -> Bool {
        buckets.withLock { $0[name]?.status == .ready }
    }

    func status(ofBucket name: String) -> BucketStatus? {
        buckets.withLock { $0[name]?.status }
    }

    func latencies(ofBucket name: String) -> [LatencyReading] { [] }

    func statistics(ofBucket name: String) -> BucketStatistics? {
        statisticsReadCount.withLock { $0 += 1 }
        return buckets.withLock { buckets in
            guard let bucket = buckets[name] else { return nil }
            var statistics = bucket.statistics
            statistics.copies.add(0, items: UInt64(bucket.documents.count), .active)
            statistics[.residentItems] = statistics[.items]
            statistics[.memoryUsed] = UInt64(
                bucket.documents.values.reduce(0) { $0 + $1.value.count }
            )
            statistics[.quota] = bucket.settings.quota
            return statistics
        }
    }

    /// What the replicas on other nodes have not acknowledged.
    let backlog = Guarded<[NodeNumber: UInt64]>([:])

    func replicationBacklog(ofBucket name: String) -> [NodeNumber: UInt64] {
        backlog.withLock { $0 }
    }

    func publish(global configuration: RenderedConfiguration) {}
    func publish(_ configuration: RenderedConfiguration, ofBucket name: String) {}
    func setCredentials(user: String, stored: StoredCredentials?, grants: Grants) {}

    func perform(
        _ action: DocumentAction,
        on key: [UInt8],
        inBucket name: String
    ) async -> DocumentOutcome {
        if let outcome = outcome.withLock({ $0 }) { return outcome }
        let isUnreadable = unreadable.withLock { $0.contains(String(decoding: key, as: UTF8.self)) }
        if isUnreadable, action == .read { return .refused(.temporaryFailure) }
        return buckets.withLock { buckets in
            guard var bucket = buckets[name] else { return .noBucket }
            defer { buckets[name] = bucket }
            let old = bucket.documents[key]
            switch action {
            case .read:
                return old.map { .found(DocumentCopy(meta: $0.meta, value: $0.value)) }
                    ?? .refused(.notFound)
            case .delete(let cas):
                guard cas == .none || old?.meta.cas ?? cas == cas else { return .refused(.exists) }
                bucket.documents[key] = nil
                return old.map { .written(version($0.meta.cas)) } ?? .refused(.notFound)
            case .write(let value, let flags, let expiry, let preservesExpiry, let precondition):
                guard precondition.permits(old?.meta.cas) else {
                    return .refused(old == nil ? .notFound : .exists)
                }
                bucket.lastCAS += 1
                let meta = DocumentMeta(
                    cas: CAS(bucket.lastCAS),
                    revision: (old?.meta.revision ?? 0) + 1,
                    flags: flags,
                    expiry: preservesExpiry ? old?.meta.expiry ?? expiry : expiry
                )
                bucket.documents[key] = Document(meta: meta, value: value)
                bucket.statistics[.sets] += 1
                bucket.statistics[.ops] += 1
                return .written(version(meta.cas))
            }
        }
    }

    private func version(_ cas: CAS) -> DocumentVersion {
        DocumentVersion(cas: cas, uuid: VBucketUUID(1), seqno: Seqno(cas.value))
    }

    func list(
        bucket: String,
        from: [UInt8]?,
        to: [UInt8]?,
        inclusiveEnd: Bool,
        skip: Int,
        limit: Int
    ) async -> KeyListing {
        buckets.withLock { buckets in
            guard let bucket = buckets[bucket] else { return .noBucket }
            let keys = bucket.documents.keys
                .sorted { $0.lexicographicallyPrecedes($1) }
                .filter { key in
                    if let from, key.lexicographicallyPrecedes(from) { return false }
                    guard let to else { return true }
                    return key.lexicographicallyPrecedes(to) || inclusiveEnd && key == to
                }
            return .keys(Array(keys.dropFirst(skip).prefix(limit)))
        }
    }

    func randomKey(inBucket name: String) -> [UInt8]? {
        buckets.withLock { $0[name]?.documents.keys.first }
    }

    func alerts() -> [Alert] { alarm.withLock { $0 } }

    // MARK: Copies

    func follow(_ assignment: BucketAssignment, as own: NodeNumber, seals: [FencedVBucket]) {
        maps.withLock { $0[assignment.name] = assignment }
    }

    /// Reports every copy as active with the map's fence.
    func reports(bucket name: String, of vBuckets: [VBucketID]?) -> [CopyReport] {
        guard let map = maps.withLock({ $0[name] }) else { return [] }
        return map.vBuckets.enumerated().compactMap { number, one in
            if vBuckets?.contains(VBucketID(UInt16(number))) == false { return nil }
            return CopyReport(
                vBucket: VBucketID(UInt16(number)),
                state: .active,
                fence: one.fence,
                position: CopyPosition(branchFence: one.fence, covered: .zero),
                high: .zero,
                persisted: .zero,
                isIntact: true,
                wasCleanStop: true,
                boot: 1
            )
        }
    }

    func served(bucket name: String) -> ActiveSeqnoDigest? { nil }

    func removeDiscardedCounts() -> [String: UInt64] { [:] }

    func seal(bucket name: String, _ vBuckets: [FencedVBucket]) -> [CopyReport] { [] }

    func activate(bucket name: String, _ copies: [CopyActivation]) -> [VBucketID] {
        copies.map(\.vBucket)
    }

    func handOver(
        bucket name: String,
        _ vBuckets: [FencedVBucket],
        done: @escaping @Sendable ([VBucketID: HandOverOutcome]) -> Void
    ) { done([:]) }

    func setLease(endNanoseconds: UInt64) {}

    var isReady: Bool { true }
}
