package import Vocabulary

/// The vBuckets of an index whose feeds may have records, and whether a read of them is posted.
///
/// To post to a lane costs its caller a system call, and the caller is a reactor behind each change.
/// So the first change posts a delayed read, and those that follow until then only enter their
/// vBucket. If a query waits, the read is posted without a delay.
///
/// - A vBucket that is entered is read by the read that is posted: the owner calls `readBegins`
///   before it removes the first vBucket.
package struct ReadyFeeds: Sendable {
    /// When the owner reads.
    package enum Posting: Hashable, Sendable {
        case atOnce
        case afterPause
    }

    /// Removed vBuckets that the queue keeps at most, so that few removals move the others.
    private static let gapMax = 1_024

    /// Changes that come within this time are read together.
    package static let pauseNanoseconds: UInt64 = 5_000_000

    private var vBuckets: Set<VBucketID> = []
    /// The same, in the order in which they were entered; those before `first` are removed.
    ///
    /// A vBucket with a long backlog is read in turns with the others.
    private var queue: [VBucketID] = []
    private var first = 0
    /// The earliest read that is posted.
    private var posted: Posting?
    /// Whether changes are to be read at once: a query waits for them, or the index is built.
    package var isHurried = false

    package init() {}

    /// The feed of `vBucket` may have records.
    ///
    /// - Returns: The read to post; nil if one is posted that is early enough.
    package mutating func wake(_ vBucket: VBucketID) -> Posting? {
        insert(vBucket)
        let wanted = isHurried ? Posting.atOnce : .afterPause
        guard posted == nil || (posted == .afterPause && wanted == .atOnce) else { return nil }
        posted = wanted
        return wanted
    }

    /// Enters a vBucket that has more records than were read; the owner reads again by itself.
    package mutating func insert(_ vBucket: VBucketID) {
        if vBuckets.insert(vBucket).inserted { queue.append(vBucket) }
    }

    /// A posted read begins: later wakes post another.
    package mutating func readBegins() { posted = nil }

    /// Removes the vBucket that was entered first, to read it; nil if there is none.
    package mutating func removeFirst() -> VBucketID? {
        guard first < queue.count else { return nil }
        let vBucket = queue[first]
        vBuckets.remove(vBucket)
        first += 1
        if first == queue.count || first >= ReadyFeeds.gapMax {
            queue.removeSubrange(..<first)
            first = 0
        }
        return vBucket
    }
}
