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

    /// Changes that come within this time are read together.
    package static let pauseNanoseconds: UInt64 = 5_000_000

    private var vBuckets: Set<VBucketID> = []
    /// The earliest read that is posted.
    private var posted: Posting?
    /// Whether changes are to be read at once: a query waits for them, or the index is built.
    package var isHurried = false

    package init() {}

    /// Whether no feed has records as far as is known.
    package var isEmpty: Bool { vBuckets.isEmpty }

    /// The feed of `vBucket` may have records.
    ///
    /// - Returns: The read to post; nil if one is posted that is early enough.
    package mutating func wake(_ vBucket: VBucketID) -> Posting? {
        vBuckets.insert(vBucket)
        let wanted = isHurried ? Posting.atOnce : .afterPause
        guard posted == nil || (posted == .afterPause && wanted == .atOnce) else { return nil }
        posted = wanted
        return wanted
    }

    /// Enters a vBucket that has more records than were read; the owner reads again by itself.
    package mutating func insert(_ vBucket: VBucketID) { vBuckets.insert(vBucket) }

    /// A posted read begins: later wakes post another.
    package mutating func readBegins() { posted = nil }

    /// Removes a vBucket to read it; nil if there is none.
    package mutating func removeFirst() -> VBucketID? { vBuckets.popFirst() }
}
