/// Processes and the buckets that they work for.
///
/// A process works for the bucket of its first function until it ends. If functions of a bucket wait for
/// which no process works, a process of another bucket is ended for them: one without work after a short
/// tenure, a busy one after a longer one, once it has executed its frames.
///
/// - No process ever has functions of two buckets.
/// - While buckets wait, each process that can be ended for them yields after its tenure, so every bucket
///   is served in the end, whatever the others have to do.
extension ScriptSchedule {
    /// The next piece's function, and the worker that runs it; nil if no worker with room can run any.
    ///
    /// A process without a bucket is for the buckets for which no process works, if there are any.
    mutating func nextAssignment(
        _ trust: ScriptReputation.Trust,
        in slots: Range<Int>
    ) -> (worker: Worker, function: UInt32)? {
        let free = workersWithRoom(in: slots)
        guard !free.isEmpty else { return nil }
        let unserved = unservedBuckets(trust, in: slots)
        let canRun = { (worker: Worker, bucket: String) in
            worker.bucket.map { $0 == bucket } ?? (unserved.isEmpty || unserved[bucket] != nil)
        }
        let function = nextFunction(trust) { bucket in free.contains { canRun($0, bucket) } }
        guard let function, let bucket = bucket(of: function) else { return nil }
        let able = free.filter { canRun($0, bucket) }
        return able.min { $0.sent.count < $1.sent.count }.map { ($0, function) }
    }

    /// Ends processes of other buckets for functions whose bucket has none.
    mutating func makeRoom(
        in slots: Range<Int>,
        _ trust: ScriptReputation.Trust,
        _ now: UInt64
    ) {
        let unserved = unservedBuckets(trust, in: slots)
        guard !unserved.isEmpty else { return }
        let isAwaited = unserved.values.contains(true)
        while unserved.count > workersToCome(in: slots) {
            let candidates = workers[slots].compactMap { $0 }.filter { worker in
                worker.phase == .ready && !worker.isRetiring && !worker.isYielding
            }
            let times = candidates.compactMap { worker in
                tenureEnd(of: worker, trust, isAwaited: isAwaited).map { (worker: worker, at: $0) }
            }
            guard let next = times.min(by: { $0.at < $1.at }) else { return }
            guard next.at <= now else {
                reassignableAt = min(reassignableAt ?? .max, next.at)
                return
            }
            if next.worker.sent.isEmpty {
                stop(next.worker.id, .reassigned)
            } else {
                change(next.worker.id) { $0.isYielding = true }
            }
        }
    }

    /// The buckets of waiting functions for which no process works, and whether clients wait for them.
    private func unservedBuckets(
        _ trust: ScriptReputation.Trust,
        in slots: Range<Int>
    ) -> [String: Bool] {
        var buckets: [String: Bool] = [:]
        forEachWaiting(trust) { _, queue in
            buckets[queue.bucket] = buckets[queue.bucket] == true || queue.isInteractive
        }
        guard !buckets.isEmpty else { return [:] }
        for case let worker? in workers[slots] where !worker.isStopping && !worker.isYielding {
            if let bucket = worker.bucket { buckets[bucket] = nil }
        }
        return buckets
    }

    /// Workers that have no bucket, or will be replaced by such ones.
    private func workersToCome(in slots: Range<Int>) -> Int {
        slots.count { slot in
            guard let worker = workers[slot], worker.bucket != nil else { return true }
            return worker.isStopping || worker.isRetiring || worker.isYielding
        }
    }

    /// When a worker can be ended for another bucket; nil for one without a bucket.
    private func tenureEnd(
        of worker: Worker,
        _ trust: ScriptReputation.Trust,
        isAwaited: Bool
    ) -> UInt64? {
        guard let tenure = worker.tenure else { return nil }
        var hasWork = !worker.sent.isEmpty
        forEachWaiting(trust) { _, queue in
            if queue.bucket == tenure.bucket { hasWork = true }
        }
        let isShort = isAwaited || !hasWork
        return tenure.since
            + (isShort ? limits.tenureShortNanoseconds : limits.tenureNanoseconds)
    }
}
