package import Indexing
internal import Scripting
internal import Seams
package import Vocabulary

/// Queries that wait for changes.
extension ViewIndex {
    /// Calls `done` on the index's lane when the index has everything through `vector`.
    ///
    /// If the wait ends with `ended`, `fault` has the cause, unless the index was stopped. A wait that
    /// `isWanted` does not want any more is forgotten without a call.
    package func whenFresh(
        _ vector: [VBucketID: AwaitedChange],
        isWanted: @escaping @Sendable () -> Bool = { true },
        done: @escaping @Sendable (FreshnessWaiters.Outcome) -> Void
    ) {
        dependencies.lane.post { [self] in
            guard !health.isStopped, health.failure == nil else {
                return done(.ended)
            }
            forgetUnwantedWaits()
            guard let number = progress.waiters.add(vector, progress.table) else {
                return done(.fresh)
            }
            // The history was replaced since the query read its newest change, or the index has not
            // noticed yet that it was.
            let replaced = vector.first { progress.table.follows($0.key, otherThan: $0.value) }
            if let replaced {
                progress.waiters.remove(number)
                return done(.moved(replaced.key))
            }
            // The index reads no change any more.
            guard health.runaway.cause == nil else {
                progress.waiters.remove(number)
                return done(.ended)
            }
            progress.waiting[number] = Wait(isWanted: isWanted, done: done)
            advance()
        }
    }

    /// Ends the waits that the change of these vBuckets ends.
    func endWaits(_ vBuckets: [VBucketID]) {
        guard !progress.waiters.isEmpty, !vBuckets.isEmpty else { return }
        for (number, outcome) in progress.waiters.changed(
            vBuckets,
            progress.table,
            isServed: progress.served.contains
        ) {
            progress.waiting.removeValue(forKey: number)?.done(outcome)
        }
    }

    /// Queries that have ended leave waits, which no change ends while a vBucket cannot be read.
    private func forgetUnwantedWaits() {
        for (number, wait) in progress.waiting where !wait.isWanted() {
            progress.waiting[number] = nil
            progress.waiters.remove(number)
        }
    }
}
