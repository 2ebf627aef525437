internal import Bytes
internal import Indexing
internal import Seams
internal import Vocabulary

/// The indexes at rest: their files and feeds are closed until their bucket changes or a query comes.
///
/// All indexes at rest of a bucket share one watch of its changes.
///
/// - Each call is from any thread.
final class RestingIndexes: Sendable {
    /// The indexes at rest of one bucket.
    private struct Bucket {
        let number: UInt64
        let served: Set<VBucketID>
        /// Nil until the watch has begun.
        var watch: (any ChangeWatch)?
        var wakes: [IndexName: @Sendable () -> Void] = [:]
    }

    private struct State {
        var buckets: [String: Bucket] = [:]
        /// Counts the watches.
        var numbers: UInt64 = 0
        var openCount = 0
        /// Indexes at rest whose memory was not returned to the system.
        var unreturned = 0
    }

    /// Rests after which their memory is returned: 100 MB.
    private static let unreturnedMax = 64

    let limits: RestRule.Limits
    private let environment: Environment
    private let changes: any DocumentChangePort
    private let state = Guarded(State())

    init(
        _ changes: any DocumentChangePort,
        _ limits: RestRule.Limits,
        environment: Environment
    ) {
        self.environment = environment
        self.changes = changes
        self.limits = limits
    }

    /// The open indexes of the node.
    var openCount: Int { state.withLock { $0.openCount } }

    func countOpened() { state.withLock { $0.openCount += 1 } }

    func countClosed() { state.withLock { $0.openCount -= 1 } }

    /// An index was closed for a rest, and its memory is free; on a lane that may be occupied.
    func countFreed() {
        state.withLock { $0.unreturned += 1 }
        returnMemory(ifOf: RestingIndexes.unreturnedMax)
    }

    /// Returns the memory of so many or more indexes to the system: the heap keeps it, since it is between
    /// memory in use.
    func returnMemory(ifOf countMin: Int = 1) {
        let isDue = state.withLock { state in
            guard state.unreturned >= countMin else { return false }
            state.unreturned = 0
            return true
        }
        if isDue { environment.returnFreeMemory() }
    }

    /// Calls `wake` once at the next change of the served vBuckets, or of what this node has of them.
    ///
    /// - Returns: Whether it will; false if the bucket cannot be watched now, if the watch of its other
    ///   indexes has not begun yet, or if that is of other vBuckets.
    func add(
        _ name: IndexName,
        served: Set<VBucketID>,
        wake: @escaping @Sendable () -> Void
    ) -> Bool {
        let (isAdded, number) = state.withLock { state -> (Bool, UInt64?) in
            if let bucket = state.buckets[name.bucket] {
                // A change before the watch has begun wakes only the index that makes the watch.
                guard bucket.served == served, bucket.watch != nil else { return (false, nil) }
                state.buckets[name.bucket]?.wakes[name] = wake
                return (true, nil)
            }
            state.numbers += 1
            state.buckets[name.bucket] = Bucket(
                number: state.numbers,
                served: served,
                wakes: [name: wake]
            )
            return (true, state.numbers)
        }
        guard let number else { return isAdded }
        let watch = changes.watch(served.sorted(), ofBucket: name.bucket) { [weak self] in
            self?.wakeAll(ofBucket: name.bucket)
        }
        let isKept = state.withLock { state in
            guard let watch, state.buckets[name.bucket]?.number == number else { return false }
            state.buckets[name.bucket]?.watch = watch
            return true
        }
        guard !isKept else { return true }
        // The bucket is not here, or has changed meanwhile.
        watch?.cancel()
        if watch == nil { remove(name) }
        return false
    }

    /// The index is opened or stopped: it need not be woken any more.
    func remove(_ name: IndexName) {
        let watch = state.withLock { state -> (any ChangeWatch)? in
            state.buckets[name.bucket]?.wakes[name] = nil
            guard state.buckets[name.bucket]?.wakes.isEmpty == true else { return nil }
            return state.buckets.removeValue(forKey: name.bucket)?.watch
        }
        watch?.cancel()
    }

    private func wakeAll(ofBucket uuid: String) {
        guard let bucket = state.withLock({ $0.buckets.removeValue(forKey: uuid) }) else { return }
        bucket.watch?.cancel()
        // In the same order in every run of a simulation.
        let wakes = bucket.wakes.map { (name: $0.key.signature.description, wake: $0.value) }
        for wake in wakes.sorted(by: { $0.name < $1.name }) { wake.wake() }
    }
}
