import Bytes
import Foundation
import Indexing
import JSON
import Persistence
import Seams
import TestSupport
import Testing
import ViewService
import Vocabulary

/// What a responder does before the first row.
@Suite(.serialized) struct QueryStartTests {
    private let world = ResponderWorld()
    private let source = "function (doc, meta) { emit(doc.n, null); }"

    private func put(_ numbers: Range<Int>) {
        for number in numbers { world.world.changes.put("k\(number)", "{\"n\":\(number)}") }
    }

    private func makeIndex() throws -> ViewIndex {
        let index = try world.index(source)
        try world.world.awaitFresh(index)
        return index
    }

    /// Makes an index that follows only some vBuckets.
    private func makeIndex(of vBuckets: Set<VBucketID>) throws -> ViewIndex {
        let index = try world.index(source)
        world.world.serve(index, vBuckets)
        try waitUntil("only these vBuckets are complete") {
            let homes = try world.world.homes(index)
            return Set(homes.filter { $0.value == .main }.keys) == vBuckets
                && homes.count == vBuckets.count
        }
        return index
    }

    // MARK: Refusals

    @Test func otherCollationIsRefusedByName() throws {
        defer { world.stop() }
        _ = try makeIndex()
        let replies = try world.ask("", ResponderWorld.Ask(collation: "1.2/3.4"))
        guard case .failed(let reason)? = replies.all.first else {
            Issue.record("the query was not refused")
            return
        }
        #expect(reason.contains("1.2/3.4") && reason.contains(Collation.version))
    }

    @Test func unknownIndexIsNotReady() throws {
        defer { world.stop() }
        #expect(try world.ask("").all == [.notReady(KnownBuckets.signature)])
    }

    /// The design document reaches the nodes of a query one after the other.
    @Test func indexThatIsMadeSoonIsAwaited() throws {
        defer { world.stop() }
        put(0..<5)
        let replies = try world.begin("stale=false")
        try world.awaitLane()
        #expect(replies.all.isEmpty)
        try world.index(source)
        world.responder.bucketsChanged()
        try world.awaitEnd(replies)
        #expect(replies.rows().count == 5 && replies.last == .end)
    }

    /// The file of an index may be opened late on a busy machine.
    @Test func currentQueryWaitsLongerForANewIndex() throws {
        defer { world.stop() }
        put(0..<5)
        let replies = try world.begin("stale=false")
        let other = try world.ask("stale=ok")
        #expect(other.all == [.notReady(KnownBuckets.signature)])
        try world.awaitLane()
        #expect(replies.all.isEmpty, "its wait began earlier, and lasts longer")
        try world.index(source)
        world.responder.bucketsChanged()
        try world.awaitEnd(replies)
        #expect(replies.rows().count == 5 && replies.last == .end)
    }

    @Test func currentQueryWithoutAnIndexEndsBeforeItsDeadline() throws {
        defer { world.stop() }
        let replies = try world.ask("stale=false", ResponderWorld.Ask(startMilliseconds: 800))
        #expect(replies.all == [.notReady(KnownBuckets.signature)])
    }

    @Test(arguments: ["stale=false", "stale=ok"])
    func obstacleToTheIndexIsStated(_ query: String) throws {
        defer { world.stop() }
        world.buckets.change { $0.obstacle = "The disk has no room." }
        #expect(try world.ask(query).all == [.failed("The disk has no room.")])
    }

    @Test func unknownReductionIsNotReady() throws {
        defer { world.stop() }
        _ = try makeIndex()
        world.reduce("_count")
        let request = try world.request("reduce=true")
        world.buckets.change { $0.reduction = nil }
        let replies = Replies()
        replies.begin(world.responder.respond(to: request) { replies.add($0) }, addsCredit: true)
        try world.awaitEnd(replies)
        #expect(replies.all == [.notReady(KnownBuckets.signature)])
    }

    // MARK: Changed views

    /// The coordinator then asks for the previous index, so nothing waits for the build.
    @Test func incompleteIndexIsNotReadyAtOnceIfThePreviousOneMayAnswer() throws {
        defer { world.stop() }
        put(0..<20)
        _ = try makeIndex(of: [VBucketID(0), VBucketID(1)])
        let changed = ResponderWorld.Ask(previous: KnownBuckets.other)
        #expect(try world.ask("stale=ok", changed).all == [.notReady(KnownBuckets.signature)])
        var complete = changed
        complete.vBuckets = [VBucketID(0), VBucketID(1)]
        #expect(try world.ask("stale=ok", complete).last == .end)
    }

    @Test func unknownIndexIsNotReadyAtOnceIfThePreviousOneMayAnswer() throws {
        defer { world.stop() }
        let changed = ResponderWorld.Ask(previous: KnownBuckets.other)
        #expect(try world.ask("stale=ok", changed).all == [.notReady(KnownBuckets.signature)])
    }

    /// Only its own definition may bring the index: the node never had the view's previous one.
    @Test func unknownPreviousIndexIsNotReadyAtOnce() throws {
        defer { world.stop() }
        let ask = ResponderWorld.Ask(previous: KnownBuckets.other, usesPrevious: true)
        #expect(try world.ask("stale=ok", ask).all == [.notReady(KnownBuckets.other)])
    }

    @Test func previousIndexThatIsBeingOpenedIsAwaited() throws {
        defer { world.stop() }
        put(0..<5)
        let ask = ResponderWorld.Ask(previous: KnownBuckets.signature, usesPrevious: true)
        let replies = try world.begin("stale=ok", ask)
        try world.awaitLane()
        #expect(replies.all.isEmpty)
        try world.index(source)
        world.responder.bucketsChanged()
        try world.awaitEnd(replies)
        #expect(replies.rows().count == 5 && replies.last == .end)
    }

    @Test func startOfPreviousIndexNamesItsMissingVBuckets() throws {
        defer { world.stop() }
        put(0..<20)
        let kept: Set<VBucketID> = [VBucketID(0), VBucketID(1)]
        _ = try makeIndex(of: kept)
        let ask = ResponderWorld.Ask(previous: KnownBuckets.signature, usesPrevious: true)
        let replies = try world.ask("stale=ok", ask)
        #expect(replies.start?.missing == MemoryChanges.vBuckets.filter { !kept.contains($0) })
        #expect(replies.last == .end)
    }

    @Test func queryOfANewerMapWaitsForIt() throws {
        defer { world.stop() }
        put(0..<5)
        _ = try makeIndex()
        let replies = try world.begin("", ResponderWorld.Ask(mapRevision: 7))
        try world.awaitLane()
        #expect(replies.all.isEmpty)
        world.buckets.change {
            $0.served = ServedVBuckets(revision: 7, vBuckets: Set(MemoryChanges.vBuckets))
        }
        world.responder.bucketsChanged()
        try world.awaitEnd(replies)
        #expect(replies.rows().count == 5 && replies.last == .end)
    }

    @Test func queryOfAMapThatDoesNotArriveHasMoved() throws {
        defer { world.stop() }
        _ = try makeIndex()
        #expect(try world.ask("", ResponderWorld.Ask(mapRevision: 7)).all == [.moved(1)])
    }

    @Test func vBucketThatIsNotServedHasMoved() throws {
        defer { world.stop() }
        _ = try makeIndex()
        world.buckets.change {
            $0.served = ServedVBuckets(revision: 9, vBuckets: [VBucketID(0), VBucketID(1)])
        }
        #expect(try world.ask("").all == [.moved(9)])
        let some = try world.ask("", ResponderWorld.Ask(vBuckets: [VBucketID(0)]))
        #expect(some.last == .end)
    }

    // MARK: Freshness

    @Test func currentQueryHasEveryChangeBeforeIt() throws {
        defer { world.stop() }
        put(0..<10)
        _ = try makeIndex()
        for round in 1...5 {
            put(round * 10..<(round + 1) * 10)
            let replies = try world.ask("stale=false")
            #expect(replies.start == QueryStart(indexRows: UInt64(round + 1) * 10))
            #expect(replies.rows().count == (round + 1) * 10)
        }
    }

    /// What the first query has read of the index is kept only for queries of the same commit.
    @Test func queryAfterACommitHasItsRows() throws {
        defer { world.stop() }
        put(0..<10)
        let index = try makeIndex()
        for _ in 0..<2 { #expect(try world.ask("stale=ok").start == QueryStart(indexRows: 10)) }
        put(10..<30)
        try world.world.awaitFresh(index)
        let replies = try world.ask("stale=ok")
        #expect(replies.start == QueryStart(indexRows: 30) && replies.rows().count == 30)
    }

    @Test func vBucketThatLeavesTheIndexIsMissingInTheNextQuery() throws {
        defer { world.stop() }
        put(0..<20)
        let index = try makeIndex()
        #expect(try world.ask("stale=ok").start == QueryStart(indexRows: 20))
        let kept = VBucketID(0)
        world.world.serve(index, [kept])
        try waitUntil("the other vBuckets are removed") {
            try world.world.homes(index) == [kept: .main]
        }
        let rows = try world.world.rowCounts(index)
        let replies = try world.ask("stale=ok", ResponderWorld.Ask(startMilliseconds: 100))
        #expect(replies.start?.indexRows == rows && replies.rows().count == Int(rows))
        #expect(replies.start?.missing == MemoryChanges.vBuckets.filter { $0 != kept })
    }

    // MARK: Histories and the lease

    /// The seqnos of the former history were reached; the changes behind them are others now.
    @Test func currentQueryOfAReplacedHistoryHasMovedUntilTheIndexFollowsIt() throws {
        defer { world.stop() }
        put(0..<20)
        let index = try makeIndex()
        let vBucket = VBucketID(1)
        world.world.changes.replaceHistory(of: vBucket)
        #expect(try world.ask("stale=false").all == [.moved(1)])
        let old = try world.ask("stale=ok")
        #expect(old.rows().count == 20, "an old index is accepted")
        world.world.changes.wake(vBucket)
        try world.world.awaitFollowed(index)
        let replies = try world.ask("stale=false")
        #expect(replies.rows().count == 20 && replies.last == .end)
    }

    /// The wait is for a change that no history has any more.
    @Test func historyThatIsReplacedDuringTheWaitHasMoved() throws {
        defer { world.stop() }
        put(0..<20)
        _ = try makeIndex()
        let vBucket = VBucketID(1)
        world.world.changes.load(vBucket, false)
        world.world.changes.failFeeds(of: vBucket, true)
        put(20..<40)
        let replies = try world.begin("stale=false")
        try world.awaitLane()
        #expect(replies.all.isEmpty)
        world.world.changes.replaceHistory(of: vBucket)
        world.world.changes.failFeeds(of: vBucket, false)
        world.world.changes.load(vBucket, true)
        try world.awaitEnd(replies)
        #expect(replies.all == [.moved(1)])
    }

    /// Another node may serve the vBuckets, and may have acknowledged changes.
    @Test func currentQueryOfANodeWithoutLeaseHasMoved() throws {
        defer { world.stop() }
        put(0..<20)
        _ = try makeIndex()
        world.world.changes.holdLease(false)
        #expect(try world.ask("stale=false").all == [.moved(1)])
        let old = try world.ask("stale=ok")
        #expect(old.rows().count == 20 && old.last == .end)
        world.world.changes.holdLease(true)
        #expect(try world.ask("stale=false").rows().count == 20)
    }

    // MARK: Deadlines

    @Test func currentQueryFailsAtItsDeadline() throws {
        defer { world.stop() }
        put(0..<20)
        _ = try makeIndex(of: [VBucketID(0), VBucketID(1)])
        let replies = try world.ask("stale=false", ResponderWorld.Ask(startMilliseconds: 100))
        guard case .failed(let reason)? = replies.all.first else {
            Issue.record("the query was not refused")
            return
        }
        #expect(reason.contains("not up to date in time"))
    }

    @Test func stoppedIndexEndsTheWaitOfACurrentQuery() throws {
        defer { world.stop() }
        put(0..<20)
        let index = try makeIndex(of: [VBucketID(0), VBucketID(1)])
        let replies = try world.begin("stale=false")
        try world.awaitLane()
        #expect(replies.all.isEmpty)
        world.world.close(index)
        try world.awaitEnd(replies)
        #expect(
            replies.all == [
                .failed("The index was replaced during the query. Retry the query.")
            ]
        )
    }

    /// The index stopped to follow the vBucket before it was asked to wait for it.
    @Test func vBucketThatLeavesDuringTheWaitHasMoved() throws {
        defer { world.stop() }
        put(0..<20)
        _ = try makeIndex(of: [VBucketID(0)])
        let replies = try world.begin("stale=false")
        try world.awaitLane()
        #expect(replies.all.isEmpty)
        world.buckets.change {
            $0.served = ServedVBuckets(revision: 2, vBuckets: [VBucketID(0)])
        }
        world.responder.bucketsChanged()
        try world.awaitEnd(replies)
        #expect(replies.all == [.moved(2)])
    }

    // MARK: Homes

    @Test func vBucketWithoutItsRowsIsNamedAfterAWait() throws {
        defer { world.stop() }
        put(0..<40)
        let complete = [VBucketID(0), VBucketID(2)]
        _ = try makeIndex(of: Set(complete))
        let count = complete.reduce(0) { $0 + world.world.changes.documents(of: $1) }
        let began = ContinuousClock.now
        let replies = try world.ask("stale=ok")
        #expect(ContinuousClock.now - began >= .milliseconds(900))
        let start = try #require(replies.start)
        #expect(start.missing == [VBucketID(1), VBucketID(3)])
        #expect(start.builtPercent < 100 && start.indexRows == UInt64(count))
        #expect(replies.rows().count == count && replies.last == .end)
    }

    @Test func buildThatEndsSoonIsAwaited() throws {
        defer { world.stop() }
        put(0..<40)
        let index = try makeIndex(of: [VBucketID(0)])
        let replies = try world.begin("stale=ok")
        try world.awaitLane()
        #expect(replies.all.isEmpty)
        world.world.serve(index, Set(MemoryChanges.vBuckets))
        try world.awaitEnd(replies)
        #expect(replies.start == QueryStart(indexRows: 40))
        #expect(replies.rows().count == 40)
    }

    /// The vBucket leaves while the query waits for its rows.
    @Test func missingVBucketThatLeftHasMoved() throws {
        defer { world.stop() }
        put(0..<40)
        _ = try makeIndex(of: [VBucketID(0)])
        let replies = try world.begin("stale=ok")
        try world.awaitLane()
        world.buckets.change {
            $0.served = ServedVBuckets(revision: 2, vBuckets: [VBucketID(0)])
        }
        try world.awaitEnd(replies)
        #expect(replies.all == [.moved(2)])
    }
}
