internal import ClusterService
internal import Credentials
internal import DataService
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary

/// Implements the cluster service's port `DataPlane` by calls of the data service.
struct DataPlaneAdapter: DataPlane {
    let data: DocumentService
    let readiness = Readiness()

    // MARK: Buckets

    func retain(only buckets: [BucketSettings]) {
        do throws(StorageError) {
            try data.removeUnknownBuckets(keeping: Set(buckets.map(\.name)))
        } catch {
            data.environment.trace.error("storage", error.description)
        }
    }

    func change(_ settings: BucketSettings) { data.change(settings) }

    func delete(bucket name: String) {
        do throws(StorageError) {
            try data.delete(name)
        } catch {
            data.environment.trace.error("storage", error.description)
        }
    }

    func giveUp(bucket name: String) {
        data.giveUp(name)
        delete(bucket: name)
    }

    func flush(bucket name: String) throws(DataPlaneError) {
        try translate { () throws(StorageError) in try data.flush(name) }
    }

    func compact(bucket name: String) -> Bool { data.compact(name) }

    func cancelCompaction(ofBucket name: String) { data.cancelCompaction(ofBucket: name) }

    func compaction(ofBucket name: String) -> CompactionWork? { data.compaction(ofBucket: name) }

    func purgeTombstones(ofBucket name: String) -> Bool { data.purgeTombstones(of: name) }

    /// Runs `body` and converts its `StorageError` to a `DataPlaneError` with the same description.
    ///
    /// - Throws: `DataPlaneError` if `body` throws.
    func translate(
        _ body: () throws(StorageError) -> Void
    ) throws(DataPlaneError) {
        do throws(StorageError) {
            try body()
        } catch {
            throw DataPlaneError(error.description)
        }
    }

    func status(ofBucket name: String) -> BucketStatus? {
        guard let bucket = data.bucket(named: name) else { return nil }
        if let failure = bucket.failure { return .failed(failure) }
        return bucket.warmupProgress.map { .warmingUp($0) } ?? .ready
    }

    func statistics(ofBucket name: String) -> BucketStatistics? {
        data.bucket(named: name)?.statistics(readsDisk: true)
    }

    func latencies(ofBucket name: String) -> [LatencyReading] {
        data.bucket(named: name)?.latencies ?? []
    }

    // MARK: Configurations and credentials

    func publish(global configuration: RenderedConfiguration) {
        data.publish(global: configuration)
    }

    func publish(_ configuration: RenderedConfiguration, ofBucket name: String) {
        data.publish(configuration, ofBucket: name)
    }

    func setCredentials(user: String, stored: StoredCredentials?, grants: Grants) {
        data.setCredentials(user: user, stored: stored, grants: grants)
    }

    func alerts() -> [Alert] {
        data.alerts.current.map { Alert(id: $0.id, message: $0.message) }
    }

    // MARK: Documents

    func perform(
        _ action: DocumentAction,
        on key: [UInt8],
        inBucket name: String
    ) async -> DocumentOutcome {
        await withUnsafeContinuation { waiter in
            data.perform(action, on: key, inBucket: name) { waiter.resume(returning: $0) }
        }
    }

    func randomKey(inBucket name: String) -> [UInt8]? {
        data.bucket(named: name).flatMap { RandomKey(data).find(in: $0, .anyCopy) }
    }

    func list(
        bucket: String,
        from: [UInt8]?,
        to: [UInt8]?,
        inclusiveEnd: Bool,
        skip: Int,
        limit: Int
    ) async -> KeyListing {
        var range = DocumentService.KeyRange()
        range.from = from
        range.to = to
        range.inclusiveEnd = inclusiveEnd
        range.skip = skip
        range.limit = limit
        let wanted = range
        return await withUnsafeContinuation { waiter in
            data.list(wanted, inBucket: bucket) { waiter.resume(returning: $0) }
        }
    }
}
