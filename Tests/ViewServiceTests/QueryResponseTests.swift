import Bytes
import Foundation
import Indexing
import Persistence
import Seams
import TestSupport
import Testing
import ViewService
import Vocabulary

/// Queries of rows on one node, with a real index file.
@Suite(.serialized) struct QueryResponseTests {
    private let world = ResponderWorld()

    /// Eight rows with keys 0, 0, 1, 1, ...
    private func putPairs() {
        for number in 0..<8 { world.world.changes.put("d\(number)", "{\"n\":\(number / 2)}") }
    }

    @discardableResult
    private func makeIndex(
        _ source: String = "function (doc, meta) { emit(doc.n, meta.id); }"
    ) throws -> ViewIndex {
        let index = try world.index(source)
        try world.world.awaitFresh(index)
        return index
    }

    private static func row(_ number: Int) -> String { "\(number / 2) d\(number) \"d\(number)\"" }

    // MARK: Rows

    @Test func rowsAreSentInTheDirectionOfTheQuery() throws {
        defer { world.stop() }
        putPairs()
        try makeIndex()
        let forward = try world.ask("stale=false")
        #expect(forward.start == QueryStart(indexRows: 8) && forward.last == .end)
        #expect(forward.rows() == (0..<8).map(Self.row))
        let backward = try world.ask("descending=true&stale=ok")
        #expect(backward.rows() == (0..<8).reversed().map(Self.row))
        #expect(world.responder.queryCount == 0)
    }

    @Test func rangeIsLimitedByKeysAndDocuments() throws {
        defer { world.stop() }
        putPairs()
        try makeIndex()
        let cases: [(String, [Int])] = [
            ("startkey=1&endkey=2", [2, 3, 4, 5]),
            ("startkey=1&endkey=2&inclusive_end=false", [2, 3]),
            ("startkey=1&startkey_docid=d3", [3, 4, 5, 6, 7]),
            ("startkey=1&startkey_docid=d3&endkey=3&endkey_docid=d6", [3, 4, 5, 6]),
            ("startkey=2&endkey=1&endkey_docid=d3&descending=true", [5, 4, 3]),
            ("startkey=9", []),
        ]
        for (query, expected) in cases {
            let replies = try world.ask(query)
            #expect(replies.rows() == expected.map(Self.row), "\(query)")
            #expect(replies.start?.indexRows == 8 && replies.last == .end)
        }
    }

    @Test func repeatedKeysAreNumberedByTheirPlace() throws {
        defer { world.stop() }
        putPairs()
        try makeIndex()
        let replies = try world.ask("keys=[2,0,7,2]")
        let expected = ["0: ", "0: ", "1: ", "1: ", "3: ", "3: "]
        #expect(
            replies.rows(numbered: true)
                == zip(expected, [4, 5, 0, 1, 4, 5]).map { $0 + Self.row($1) }
        )
    }

    @Test func rowLimitCountsTheRowsOfAllRanges() throws {
        defer { world.stop() }
        putPairs()
        try makeIndex()
        #expect(try world.ask("limit=2&skip=1").rows() == (0..<3).map(Self.row))
        #expect(
            try world.ask("keys=[2,0]&limit=3").rows() == [4, 5, 0].map(Self.row)
        )
        let none = try world.ask("limit=0")
        #expect(none.batches.isEmpty && none.last == .end && none.start?.indexRows == 8)
    }

    @Test func largeValueIsSentWhole() throws {
        defer { world.stop() }
        world.world.changes.put("d", "{\"n\":1}")
        try makeIndex("function (doc) { emit(doc.n, 'x'.repeat(200000)); }")
        let rows = try world.ask("").rows()
        #expect(rows == ["1 d \"\(String(repeating: "x", count: 200_000))\""])
    }

    @Test func rowsOfOtherVBucketsAreNeitherSentNorCounted() throws {
        defer { world.stop() }
        for number in 0..<400 { world.world.changes.put("k\(number)", "{\"n\":\(number)}") }
        try makeIndex()
        let wanted = [VBucketID(1), VBucketID(3)]
        let count = wanted.reduce(0) { $0 + world.world.changes.documents(of: $1) }
        let replies = try world.ask("", ResponderWorld.Ask(vBuckets: wanted))
        #expect(replies.start == QueryStart(indexRows: UInt64(count)))
        let vBuckets = replies.batches.flatMap { batch in
            (0..<batch.count).map { batch.withRow($0) { $0.vBucket } }
        }
        #expect(vBuckets.count == count && Set(vBuckets) == Set(wanted))
        #expect(count > 0 && count < 400)
    }

    // MARK: The thread that asks

    @Test func shortAnswerIsThereWhenTheCallReturns() throws {
        defer { world.stop() }
        putPairs()
        try makeIndex()
        var ask = ResponderWorld.Ask()
        ask.onThisThread = true
        let replies = try world.begin("key=2&stale=ok", ask)
        #expect(replies.start == QueryStart(indexRows: 8) && replies.last == .end)
        #expect(replies.rows() == [4, 5].map(Self.row))
        #expect(world.responder.queryCount == 0)
        #expect(world.postCount == 0)
    }

    @Test func longAnswerContinuesOnTheLane() throws {
        defer { world.stop() }
        for number in 0..<400 { world.world.changes.put("k\(number)", "{\"n\":\(number)}") }
        try makeIndex("function (doc) { emit(doc.n, null); }")
        var ask = ResponderWorld.Ask()
        ask.onThisThread = true
        let replies = try world.ask("stale=ok", ask)
        #expect(replies.rows() == (0..<400).map { "\($0) k\($0) null" })
    }

    @Test func answerThatWaitsForTheIndexContinuesOnTheLane() throws {
        defer { world.stop() }
        let index = try makeIndex()
        var ask = ResponderWorld.Ask()
        ask.onThisThread = true
        putPairs()
        #expect(try world.ask("stale=false", ask).rows() == (0..<8).map(Self.row))
        withExtendedLifetime(index) {}
    }

    /// The nodes above the leaves are kept between queries; the leaves of short ones too.
    @Test func queriesOfATreeWithInnerNodesSeeEachCommit() throws {
        defer { world.stop() }
        for number in 0..<100 { world.world.changes.put("k\(number)", "{\"n\":\(number)}") }
        let source =
            "function (doc) { for (let i = 0; i < 30; i++) emit(doc.n * 30 + i, doc.text); }"
        let index = try makeIndex(source)
        #expect(try index.file.head().main.height > 1)
        for round in 0..<5 {
            #expect(try world.ask("stale=ok").rows().count == 3_000)
            let changed = round * 20
            world.world.changes.put("k\(changed)", "{\"n\":\(changed),\"text\":\"\(round)\"}")
            try world.world.awaitFresh(index)
            let rows = try world.ask("stale=ok&startkey=\(changed * 30)&limit=1").rows()
            #expect(rows == ["\(changed * 30) k\(changed) \"\(round)\""])
            var ask = ResponderWorld.Ask()
            ask.onThisThread = true
            for _ in 0..<2 {
                let again = try world.ask("stale=ok&startkey=\(changed * 30)&limit=1", ask)
                #expect(again.rows() == rows)
            }
        }
    }

    // MARK: Credit and life

    /// Some megabytes of rows.
    private func putManyBatches() throws -> ViewIndex {
        for number in 0..<400 { world.world.changes.put("k\(number)", "{\"n\":\(number)}") }
        return try makeIndex("function (doc) { emit(doc.n, 'x'.repeat(1000)); }")
    }

    @Test func batchWithoutCreditIsNotSent() throws {
        defer { world.stop() }
        _ = try putManyBatches()
        let replies = try world.begin("", ResponderWorld.Ask(addsCredit: false))
        for count in RowMerge.creditMax..<RowMerge.creditMax + 3 {
            try waitUntil("\(count) batches are sent") {
                replies.batches.count == count
            }
            // All turns without credit would be over after these.
            for _ in 0..<10 { try world.awaitLane() }
            #expect(replies.batches.count == count && replies.last == nil)
            replies.addCredit()
        }
        for _ in 0..<10 { replies.addCredit() }
        try world.awaitEnd(replies)
        #expect(replies.rows().count == 400 && replies.last == .end)
        #expect(replies.batches.dropLast().allSatisfy { $0.count > 60 })
    }

    @Test func cancelledQueryReleasesItsReaderAndSendsNothing() throws {
        defer { world.stop() }
        _ = try putManyBatches()
        let holders = try (0..<IndexSettings().readersMax).map { _ in
            try world.begin("", ResponderWorld.Ask(addsCredit: false))
        }
        try waitUntil("all readers are in use") {
            holders.allSatisfy { $0.batches.count == RowMerge.creditMax }
        }
        let next = try world.begin("limit=1")
        for _ in 0..<10 { try world.awaitLane() }
        #expect(next.all.isEmpty)
        let count = holders[0].all.count
        holders[0].cancel()
        holders[0].addCredit()
        try world.awaitEnd(next)
        #expect(next.rows().count == 1 && next.last == .end)
        #expect(holders[0].all.count == count)
        #expect(world.responder.queryCount == holders.count - 1)
    }

    @Test func queryWithoutAReaderFailsAtItsDeadline() throws {
        defer { world.stop() }
        let index = try putManyBatches()
        var readers: [IndexReader] = []
        while let reader = try index.file.acquireReader() { readers.append(reader) }
        let replies = try world.ask("", ResponderWorld.Ask(startMilliseconds: 50))
        #expect(
            replies.all == [
                .failed("Too many queries read the index at a time. Retry the query later.")
            ]
        )
        for reader in readers { index.file.release(reader) }
    }

    @Test func stoppedResponderEndsItsQueries() throws {
        defer { world.stop() }
        _ = try putManyBatches()
        let replies = try world.begin("", ResponderWorld.Ask(addsCredit: false))
        try waitUntil("the query waits") {
            replies.batches.count == RowMerge.creditMax
        }
        world.responder.stop()
        try world.awaitEnd(replies)
        let failure = QueryReply.failed("The node is being stopped. Retry the query.")
        #expect(replies.last == failure)
        #expect(try world.ask("").all == [failure])
    }

    @Test func closedIndexEndsItsQueries() throws {
        defer { world.stop() }
        let index = try putManyBatches()
        let replies = try world.begin("", ResponderWorld.Ask(addsCredit: false))
        try waitUntil("the query waits") {
            replies.batches.count == RowMerge.creditMax
        }
        world.world.close(index)
        replies.addCredit()
        try world.awaitEnd(replies)
        #expect(
            replies.last
                == .failed("The index was replaced during the query. Retry the query.")
        )
    }
}
