internal import Seams
internal import Wire

/// The session of a client: the selected bucket and the agreed features, for all its later requests.
extension Connection {
    /// Finds the selected bucket again by its name: it was flushed or deleted, or a bucket of its
    /// name may have been created meanwhile.
    func findBucketAgain() {
        if isMemcachedListener, service.plain.isRefusing {
            bucket = nil
            return
        }
        let name = bucket?.name ?? lostBucketName ?? service.plain.bucketName
        bucket = name.flatMap { service.bucket(named: $0) }
        defer { lostBucketName = bucket == nil && !isMemcachedListener ? name : nil }
        // A plain memcached client has no map, so NOT_MY_VBUCKET would not redirect it.
        isElsewhere =
            !isMemcachedListener && bucket == nil && name.map { service.isGivenUp($0) } ?? false
        // The bucket may have been created again with a password.
        if let found = bucket, !isMemcachedListener, !mayUse(found) { bucket = nil }
    }

    /// Keeps what the agreed features mean for each request.
    func applyFeatures() {
        isJSONAgreed = features.contains(.json)
        let isTraced = features.contains(.tracing)
        if isTraced, !isTracingAgreed {
            turnStart = service.environment.time.monotonicNanoseconds()
        }
        isTracingAgreed = isTraced
        isTokenAgreed = features.contains(.mutationSeqno)
        isUnordered = features.contains(.unorderedExecution)
    }
}
