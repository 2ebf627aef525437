import Indexing
import Testing
import Vocabulary

/// When an index reads the feeds that were woken.
@Suite struct ReadyFeedsTests {
    private let first = VBucketID(1)
    private let second = VBucketID(2)

    /// A vBucket with a long backlog is entered again after each read.
    @Test func vBucketsAreReadInTurns() {
        var ready = ReadyFeeds()
        let all = (0..<3).map { VBucketID(UInt16($0)) }
        for vBucket in all { _ = ready.wake(vBucket) }
        for round in 0..<2_000 {
            let next = ready.removeFirst()
            #expect(next == all[round % 3])
            if let next { ready.insert(next) }
        }
    }

    @Test func wakesWithinThePausePostOneRead() {
        var ready = ReadyFeeds()
        let posted = ready.wake(first)
        #expect(posted == .afterPause)
        for _ in 0..<1_000 {
            let (one, two) = (ready.wake(first), ready.wake(second))
            #expect(one == nil && two == nil)
        }
        _ = ready.readBegins(.afterPause)
        let removed = [ready.removeFirst(), ready.removeFirst(), ready.removeFirst()]
        #expect(removed == [first, second, nil])
    }

    /// The read that is posted and whether a query waits, with the read that a wake posts.
    @Test(arguments: [
        (ReadyFeeds.Posting?.none, false, ReadyFeeds.Posting?.some(.afterPause)),
        (nil, true, .atOnce),
        (.afterPause, false, nil),
        (.afterPause, true, .atOnce),
        (.atOnce, false, nil),
        (.atOnce, true, nil),
    ])
    func wakePostsReadUnlessEarlierReadIsPosted(
        _ posted: ReadyFeeds.Posting?,
        _ isHurried: Bool,
        _ expected: ReadyFeeds.Posting?
    ) {
        var ready = ReadyFeeds()
        if let posted {
            ready.isHurried = posted == .atOnce
            let first = ready.wake(first)
            #expect(first == posted)
        }
        ready.isHurried = isHurried
        let found = ready.wake(second)
        #expect(found == expected)
    }

    @Test func readAfterPauseRepeatsUntilNoFeedIsWoken() {
        var ready = ReadyFeeds()
        _ = ready.wake(first)
        let repeats = ready.readBegins(.afterPause)
        let (removed, woken) = (ready.removeFirst(), ready.wake(first))
        #expect(repeats && removed == first && woken == nil)
        let repeatsAgain = ready.readBegins(.afterPause)
        let removedAgain = ready.removeFirst()
        #expect(repeatsAgain && removedAgain == first)
        let repeatsIdle = ready.readBegins(.afterPause)
        let posted = ready.wake(second)
        #expect(!repeatsIdle && posted == .afterPause)
    }

    @Test func readAtOnceLeavesTheDelayedOnePosted() {
        var ready = ReadyFeeds()
        _ = ready.wake(first)
        ready.isHurried = true
        let hurried = ready.wake(second)
        ready.isHurried = false
        let repeats = ready.readBegins(.atOnce)
        let woken = ready.wake(first)
        #expect(hurried == .atOnce && !repeats && woken == nil)
    }

    @Test func delayedReadIsNotRepeatedWhileWakesPostAtOnce() {
        var ready = ReadyFeeds()
        _ = ready.wake(first)
        ready.isHurried = true
        let repeats = ready.readBegins(.afterPause)
        let woken = ready.wake(first)
        #expect(!repeats && woken == .atOnce)
    }

    @Test func readyVBucketsAreReadInTurn() {
        var ready = ReadyFeeds()
        let all = [0, 63, 64, 1_023].map { VBucketID($0) }
        for vBucket in all { ready.insert(vBucket) }
        var removed: [VBucketID] = []
        for _ in 0..<9 {
            guard let vBucket = ready.removeFirst() else { break }
            removed.append(vBucket)
            // It has more records than were read.
            ready.insert(vBucket)
        }
        #expect(removed == all + all + [all[0]])
    }

    @Test func vBucketWithMoreRecordsPostsNothing() {
        var ready = ReadyFeeds()
        ready.insert(first)
        let posted = ready.wake(second)
        #expect(posted == .afterPause)
    }
}
