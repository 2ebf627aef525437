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
        #expect(ready.wake(first) == .afterPause)
        for _ in 0..<1_000 { #expect(ready.wake(first) == nil && ready.wake(second) == nil) }
        ready.readBegins()
        #expect(Set([ready.removeFirst(), ready.removeFirst()]) == [first, second])
        #expect(ready.removeFirst() == nil)
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
    func wakePostsAReadUnlessAnEarlierOneIsPosted(
        _ posted: ReadyFeeds.Posting?,
        _ isHurried: Bool,
        _ expected: ReadyFeeds.Posting?
    ) {
        var ready = ReadyFeeds()
        if let posted {
            ready.isHurried = posted == .atOnce
            #expect(ready.wake(first) == posted)
        }
        ready.isHurried = isHurried
        #expect(ready.wake(second) == expected)
    }

    @Test func wakeBehindTheBeginOfAReadPostsAnother() {
        var ready = ReadyFeeds()
        _ = ready.wake(first)
        ready.readBegins()
        #expect(ready.removeFirst() == first)
        #expect(ready.wake(first) == .afterPause)
        #expect(ready.removeFirst() == first)
    }

    @Test func vBucketWithMoreRecordsPostsNothing() {
        var ready = ReadyFeeds()
        ready.insert(first)
        #expect(ready.wake(second) == .afterPause)
    }
}
