import Indexing
import Testing
import Vocabulary

/// Queries that wait for an index.
@Suite struct FreshnessWaitersTests {
    private let one = VBucketID(1)
    private let two = VBucketID(2)

    private func position(_ seqno: UInt64) -> IndexPosition {
        IndexPosition(
            uuid: VBucketUUID(3),
            seqno: Seqno(seqno),
            snapshotStart: Seqno(seqno),
            snapshotEnd: Seqno(seqno)
        )
    }

    /// A change of the history that the positions are of, or of another one.
    private func at(_ seqno: UInt64, of history: UInt64 = 3) -> AwaitedChange {
        AwaitedChange(Seqno(seqno), of: VBucketUUID(history))
    }

    /// Two vBuckets that are counted through seqno 5.
    private func table() -> IndexTable {
        var table = IndexTable(stored: [one: (.main, position(5)), two: (.main, position(5))])
        _ = table.serve([one, two])
        for vBucket in [one, two] {
            _ = table.opened(vBucket, .opened(high: Seqno(5), uuid: VBucketUUID(3)))
        }
        return table
    }

    @Test func waitForAFillingVBucketIsNotEndable() {
        var (waiters, table) = (FreshnessWaiters(), table())
        _ = waiters.add([one: at(7), two: at(6)], table)
        for filling in [[one], [two], [one, two]] {
            let isAny = waiters.isAnyEndable(isFilling: filling.contains)
            #expect(!isAny)
        }
        let isAny = waiters.isAnyEndable { _ in false }
        #expect(isAny)
        table.committed(one, position(7))
        _ = waiters.changed([one], table) { _ in true }
        let (first, second) = (one, two)
        let isOtherFilling = waiters.isAnyEndable { $0 == first }
        let isSameFilling = waiters.isAnyEndable { $0 == second }
        #expect(isOtherFilling && !isSameFilling)
    }

    @Test func waitThatNeedsNoFillingVBucketIsEndableBesideOneThatDoes() {
        var waiters = FreshnessWaiters()
        _ = waiters.add([one: at(7)], table())
        _ = waiters.add([two: at(7)], table())
        let second = two
        let isOneFilling = waiters.isAnyEndable { $0 == second }
        let isEachFilling = waiters.isAnyEndable { _ in true }
        #expect(isOneFilling && !isEachFilling)
    }

    @Test func freshIndexNeedsNoWait() {
        var waiters = FreshnessWaiters()
        let number = waiters.add([one: at(5), two: at(4)], table())
        #expect(number == nil)
        #expect(waiters.isEmpty)
    }

    @Test func waitEndsWithTheLastVBucketOfTheVector() throws {
        var (waiters, table) = (FreshnessWaiters(), table())
        let added = waiters.add([one: at(7), two: at(6)], table)
        let number = try #require(added)
        table.committed(one, position(9))
        let early = waiters.changed([one], table) { _ in true }
        #expect(early.isEmpty)
        table.committed(two, position(6))
        let ended = waiters.changed([two], table) { _ in true }
        #expect(ended.map(\.number) == [number] && ended.map(\.outcome) == [.fresh])
        #expect(waiters.isEmpty)
    }

    @Test func departedVBucketEndsTheWait() throws {
        var (waiters, table) = (FreshnessWaiters(), table())
        let added = waiters.add([one: at(7), two: at(7)], table)
        let number = try #require(added)
        _ = table.serve([two])
        let ended = waiters.changed([one], table) { $0 == two }
        #expect(ended.map(\.number) == [number] && ended.map(\.outcome) == [.moved(one)])
        #expect(waiters.isEmpty)
    }

    /// A vBucket that is filled again has rows only up to its position, so a query must wait although
    /// the seqno was reached before.
    @Test func vBucketThatIsFilledAgainIsWaitedFor() throws {
        var (waiters, table) = (FreshnessWaiters(), table())
        _ = table.ended(one)
        _ = table.retry(one)
        _ = table.opened(one, .rollBack)
        let added = waiters.add([one: at(3)], table)
        let number = try #require(added)
        _ = table.removed(one)
        _ = table.opened(one, .opened(high: Seqno(4), uuid: VBucketUUID(3)))
        table.committed(one, position(3))
        let early = waiters.changed([one], table) { _ in true }
        #expect(early.isEmpty)
        table.committed(one, position(4))
        let ended = waiters.changed([one], table) { _ in true }
        #expect(ended.map(\.number) == [number])
    }

    /// After a crash the copy may have lost changes that the index has, and has others with their
    /// seqnos: only the opening of the feed states that the position is of the copy's history.
    @Test func positionCountsOnlyWhileTheFeedIsOpen() throws {
        var waiters = FreshnessWaiters()
        var table = IndexTable(stored: [one: (.main, position(5))])
        _ = table.serve([one])
        let added = waiters.add([one: at(4)], table)
        let number = try #require(added)
        _ = table.opened(one, .opened(high: Seqno(5), uuid: VBucketUUID(3)))
        let ended = waiters.changed([one], table) { _ in true }
        #expect(ended.map(\.number) == [number] && ended.map(\.outcome) == [.fresh])
        _ = table.ended(one)
        #expect(!table.has(one, through: Seqno(4)))
    }

    /// The copy was promoted or rolled back: other changes have these seqnos now.
    @Test func changeOfAnotherHistoryIsNotReached() throws {
        var (waiters, table) = (FreshnessWaiters(), table())
        #expect(!table.has(one, at(4, of: 9)) && table.has(one, at(4)))
        #expect(table.has(one, AwaitedChange(Seqno(4))), "any history counts")
        let number = waiters.add([one: at(4, of: 9)], table)
        #expect(number != nil)
    }

    /// The awaited history ended during the wait, and its seqno is never reached, or by other changes.
    @Test func historyThatIsReplacedEndsTheWait() throws {
        var (waiters, table) = (FreshnessWaiters(), table())
        let added = waiters.add([one: at(7), two: at(5)], table)
        let number = try #require(added)
        _ = table.ended(one)
        let early = waiters.changed([one], table) { _ in true }
        #expect(early.isEmpty, "without a feed it is not known which history follows")
        _ = table.retry(one)
        _ = table.opened(one, .opened(high: Seqno(9), uuid: VBucketUUID(4)))
        let ended = waiters.changed([one], table) { _ in true }
        #expect(ended.map(\.number) == [number] && ended.map(\.outcome) == [.moved(one)])
        #expect(waiters.isEmpty)
    }

    @Test func feedThatIsOpenedAgainOfTheSameHistoryContinuesTheWait() throws {
        var (waiters, table) = (FreshnessWaiters(), table())
        _ = waiters.add([one: at(7)], table)
        _ = table.ended(one)
        _ = table.retry(one)
        _ = table.opened(one, .opened(high: Seqno(7), uuid: VBucketUUID(3)))
        let early = waiters.changed([one], table) { _ in true }
        #expect(early.isEmpty)
        table.committed(one, position(7))
        let ended = waiters.changed([one], table) { _ in true }
        #expect(ended.map(\.outcome) == [.fresh])
    }

    @Test func removedWaiterIsNotReported() throws {
        var (waiters, table) = (FreshnessWaiters(), table())
        let added = waiters.add([one: at(7)], table)
        let number = try #require(added)
        waiters.remove(number)
        table.committed(one, position(8))
        let early = waiters.changed([one], table) { _ in true }
        #expect(early.isEmpty)
    }
}
