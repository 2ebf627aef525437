package import Vocabulary

/// Queries with `stale=false` that wait until an index has what was visible when they arrived.
///
/// A query waits for a vector: for each vBucket that it reads, the newest visible change at its
/// arrival, with its history. `advanced` items move positions over invisible changes, so an undecided
/// durable write delays no query. If the index follows another history than a query awaits, the wait
/// ends: the query arrives again, and awaits a change of the newer history.
package struct FreshnessWaiters: Sendable {
    /// Why a wait ended.
    package enum Outcome: Hashable, Sendable {
        /// The index has every change through the vector.
        case fresh
        /// This node does not serve one of the vBuckets any more, or its history was replaced.
        case moved(VBucketID)
        /// The index has stopped or failed.
        case ended
    }

    private struct Waiter {
        let number: UInt64
        /// The awaited changes that the index does not have yet.
        var missing: [VBucketID: AwaitedChange]
    }

    private var waiters: [Waiter] = []
    private var numbers: UInt64 = 0

    package init() {}

    /// Whether no query waits.
    package var isEmpty: Bool { waiters.isEmpty }

    /// The vBuckets that are waited for.
    package var vBuckets: Set<VBucketID> {
        waiters.reduce(into: []) { $0.formUnion($1.missing.keys) }
    }

    /// Whether a query waits that the next commits can end.
    ///
    /// - Parameter isFilling: Whether a vBucket is filled, and changes that complete it are not read.
    /// - Returns: Whether a query waits for no such vBucket.
    package func isAnyEndable(isFilling: (VBucketID) -> Bool) -> Bool {
        waiters.contains { waiter in !waiter.missing.keys.contains(where: isFilling) }
    }

    /// Adds a query.
    ///
    /// - Parameters:
    ///   - vector: For each vBucket, the change to reach.
    ///   - table: What the index has.
    /// - Returns: The waiter's number; nil if the index has everything already.
    package mutating func add(
        _ vector: [VBucketID: AwaitedChange],
        _ table: IndexTable
    ) -> UInt64? {
        let missing = vector.filter { vBucket, awaited in !table.has(vBucket, awaited) }
        guard !missing.isEmpty else { return nil }
        numbers += 1
        waiters.append(Waiter(number: numbers, missing: missing))
        return numbers
    }

    /// Removes a query that no longer waits.
    package mutating func remove(_ number: UInt64) { waiters.removeAll { $0.number == number } }

    /// The table has changed.
    ///
    /// - Parameters:
    ///   - vBuckets: The vBuckets that a commit has moved, whose feeds were opened, or that are
    ///   served no more.
    ///   - table: What the index has.
    ///   - isServed: Whether this node serves a vBucket.
    /// - Returns: The waits that have ended, in the order of their numbers.
    package mutating func changed(
        _ vBuckets: [VBucketID],
        _ table: IndexTable,
        isServed: (VBucketID) -> Bool
    ) -> [(number: UInt64, outcome: Outcome)] {
        var ended: [(number: UInt64, outcome: Outcome)] = []
        for index in waiters.indices {
            for vBucket in vBuckets {
                guard let awaited = waiters[index].missing[vBucket] else { continue }
                if !isServed(vBucket) || table.follows(vBucket, otherThan: awaited) {
                    ended.append((waiters[index].number, .moved(vBucket)))
                    waiters[index].missing = [:]
                } else if table.has(vBucket, awaited) {
                    waiters[index].missing[vBucket] = nil
                    if waiters[index].missing.isEmpty {
                        ended.append((waiters[index].number, .fresh))
                    }
                }
            }
        }
        waiters.removeAll { $0.missing.isEmpty }
        return ended
    }
}
