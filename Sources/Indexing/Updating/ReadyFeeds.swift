package import Vocabulary

/// The vBuckets of an index whose feeds may have records, and which reads of them are posted.
///
/// To post to a lane that sleeps costs its caller a system call, and the caller is a reactor behind
/// each change. So the first change posts a delayed read, and those that follow until then only enter
/// their vBucket. A delayed read that has new changes is repeated by its owner, whose lane is awake:
/// while changes keep coming, no reactor posts. If a query waits, the read is posted without a delay.
///
/// - A vBucket that is entered is read by a read that is posted: the owner calls `readBegins`
///   before it removes the first vBucket.
/// - At most one delayed read is posted.
package struct ReadyFeeds: Sendable {
    /// When the owner reads.
    package enum Posting: Hashable, Sendable {
        case atOnce
        case afterPause
    }

    /// Changes that come within this time are read together.
    package static let pauseNanoseconds: UInt64 = 10_000_000

    /// A bit for each vBucket: no hash and no allocation on the thread of a write.
    private var words: [UInt64] = []
    /// The place after the vBucket that was removed last, so that each has its turn.
    private var next = 0
    private var isPostedAtOnce = false
    private var isPostedAfterPause = false
    /// Whether a feed was woken since the last read began.
    private var hasNews = false
    /// Whether changes are to be read at once: a query waits for them, or the index is built.
    package var isHurried = false

    package init() {}

    /// The feed of `vBucket` may have records.
    ///
    /// - Returns: The read to post; nil if one is posted that is early enough.
    package mutating func wake(_ vBucket: VBucketID) -> Posting? {
        insert(vBucket)
        hasNews = true
        if isPostedAtOnce { return nil }
        if isHurried {
            isPostedAtOnce = true
            return .atOnce
        }
        if isPostedAfterPause { return nil }
        isPostedAfterPause = true
        return .afterPause
    }

    /// Enters a vBucket that has more records than were read; the owner reads again by itself.
    package mutating func insert(_ vBucket: VBucketID) {
        let word = Int(vBucket.number) / 64
        while words.count <= word { words.append(0) }
        words[word] |= 1 << UInt64(vBucket.number % 64)
    }

    /// A posted read begins: later wakes rely on another.
    ///
    /// - Returns: Whether the owner has to post a read after the pause.
    package mutating func readBegins(_ posting: Posting) -> Bool {
        defer { hasNews = false }
        switch posting {
        case .atOnce:
            isPostedAtOnce = false
            return false
        case .afterPause:
            isPostedAfterPause = hasNews && !isHurried
            return isPostedAfterPause
        }
    }

    /// Removes a vBucket to read it; nil if there is none.
    package mutating func removeFirst() -> VBucketID? {
        guard let place = first(from: next) ?? first(from: 0) else { return nil }
        words[place / 64] &= ~(1 << UInt64(place % 64))
        next = place + 1
        return VBucketID(UInt16(place))
    }

    private func first(from place: Int) -> Int? {
        var word = place / 64
        var mask = ~UInt64(0) << UInt64(place % 64)
        while word < words.count {
            let found = words[word] & mask
            if found != 0 { return word * 64 + found.trailingZeroBitCount }
            mask = ~0
            word += 1
        }
        return nil
    }
}
