import Bytes
import Foundation
import Indexing
import Persistence
import ScriptProcesses
import Scripting
import Seams
import TestSupport
import Testing
import ViewService
import Vocabulary
import Wire

/// What a service does about files and functions that fail.
@Suite(.serialized) struct IndexFaultTests {
    private let world = ServiceWorld()
    private static let byNumber = "function (doc) { emit(doc.n, null); }"

    private func fill(_ count: Int = 40) {
        for number in 0..<count { world.changes.put("k\(number)", "{\"n\":\(number)}") }
    }

    @Test func damagedFileIsSetAsideAndTheIndexIsBuiltAnew() throws {
        defer { world.stop() }
        fill()
        let view = world.view("d/a", IndexFaultTests.byNumber)
        let service = try world.service()
        try world.write(String(repeating: "no index ", count: 1_000), to: world.path(service, view))
        service.reconcile([world.bucket([view])])
        try world.awaitFresh(service, view)
        #expect(try world.reports(service).first?.status.rows == 40)
        #expect(world.files()?.count { $0.contains(".damaged-") } == 1)
        #expect(world.logCount("Index beer/d/a cannot use its file") == 1)
        try world.stop(service)
    }

    /// A file has the name of the directory of the bucket's indexes.
    @Test func queryOfAnIndexThatCannotBeOpenedStatesTheCauseAndTheCure() throws {
        defer { world.stop() }
        let view = world.view("d/a", IndexFaultTests.byNumber)
        let service = try world.service()
        try world.write("no directory", to: "\(world.directory)/indexes/b1")
        service.reconcile([world.bucket([view])])
        try waitUntil("the fault is reported") {
            try world.reports(service).first?.fault != nil
        }
        var request = QueryRequest(
            bucket: "b1",
            index: QueryRequest.IndexSelection(
                choice: IndexChoice(current: IndexSigning.signature(of: view)),
                collation: IndexService.collationVersion
            ),
            scan: QueryPlan(ViewQuery()).scan,
            freshness: .current
        )
        request.vBuckets = MemoryChanges.vBuckets
        request.mapRevision = 1
        request.startMillisecondsMax = 60_000
        let replies = Replies()
        replies.begin(service.respond(to: request) { replies.add($0) }, addsCredit: true)
        try waitUntil("the query ends") { replies.last != nil }
        guard case .failed(let reason)? = replies.last else {
            Issue.record("the query did not fail")
            return
        }
        #expect(reason.contains("beer/d/a is not open") && reason.contains("Remove the cause"))
        #expect(!reason.contains(world.directory))
        try world.stop(service)
    }

    /// A part of the file that only queries read, since no change touches it.
    enum Part: CaseIterable {
        case node
        case values

        func damage(_ file: IndexFile) throws(StorageError) {
            try file.commit { (transaction) throws(StorageError) in
                switch self {
                case .node:
                    let noNode = ByteWriter()
                    noNode.append([UInt8](repeating: 0xee, count: 100))
                    try transaction.write(transaction.head.main.node, noNode.view)
                case .values:
                    let removed = try transaction.removeValues(from: IndexValueID(0), countMax: 100)
                    #expect(removed > 0)
                }
            }
        }
    }

    @Test(arguments: Part.allCases)
    func fileThatAQueryFindsDamagedIsSetAside(_ part: Part) throws {
        defer { world.stop() }
        fill()
        // Too long for a leaf.
        let view = world.view("d/a", "function (doc) { emit(doc.n, 'x'.repeat(2000)); }")
        let service = try world.service()
        service.reconcile([world.bucket([view])])
        let index = try world.awaitFresh(service, view)
        try part.damage(index.file)
        let request = world.request(IndexChoice(current: IndexSigning.signature(of: view)))
        let replies = Replies()
        let call = service.respond(to: request) { replies.add($0) }
        replies.begin(call, addsCredit: true)
        try waitUntil("the query ends") { replies.last != nil }
        guard case .failed? = replies.last else {
            Issue.record("the query has read what is damaged")
            return
        }
        try waitUntil("the index is replaced") {
            service.index(IndexSigning.signature(of: view), ofBucket: "b1").map { $0 !== index }
                ?? false
        }
        try world.awaitFresh(service, view)
        #expect(try world.reports(service).first?.status.rows == 40)
        #expect(world.files()?.count { $0.contains(".damaged-") } == 1)
        try world.stop(service)
    }

    @Test func fileOfAnotherIndexIsSetAsideAndTheIndexIsBuiltAnew() throws {
        defer { world.stop() }
        fill()
        let view = world.view("d/a", IndexFaultTests.byNumber)
        let other = world.view("d/b", "function (doc) { emit(1, 1); emit(2, 2); }")
        let first = try world.service()
        first.reconcile([world.bucket([other])])
        try world.awaitFresh(first, other)
        try world.stop(first)
        for suffix in ["", "-wal"] {
            try FileManager.default.moveItem(
                atPath: world.path(first, other) + suffix,
                toPath: world.path(first, view) + suffix
            )
        }
        let second = try world.service()
        second.reconcile([world.bucket([view])])
        try world.awaitFresh(second, view)
        #expect(try world.reports(second).first?.status.rows == 40)
        #expect(world.files()?.count { $0.contains(".damaged-") } == 1)
        try world.stop(second)
    }

    @Test func indexWhoseFileFailsIsOpenedAgain() throws {
        defer { world.stop() }
        fill()
        let view = world.view("d/a", IndexFaultTests.byNumber)
        let service = try world.service()
        service.reconcile([world.bucket([view])])
        let index = try world.awaitFresh(service, view)
        // From now on each of its calls throws, as after an error of the disk.
        try index.file.close()
        world.changes.put("new", #"{"n":1}"#)
        try waitUntil("the fault is stated") {
            try world.reports(service).first?.fault != nil
        }
        #expect(index.fault != nil)
        #expect(try world.awaitFresh(service, view) !== index)
        #expect(try world.reports(service).first?.fault == nil)
        #expect(try world.reports(service).first?.status.rows == 41)
        try world.stop(service)
    }

    @Test func waitForARunawayViewEndsAndTheCauseIsStated() throws {
        defer { world.stop() }
        fill(RunawayRule.successionMax)
        let view = world.view("d/a", "function () { while (true) {} }")
        let service = try world.service { $0.mapTimeoutMilliseconds = 10 }
        service.reconcile([world.bucket([view])])
        let signature = IndexSigning.signature(of: view)
        try waitUntil("the index is open") {
            service.index(signature, ofBucket: "b1") != nil
        }
        let index = try #require(service.index(signature, ofBucket: "b1"))
        let outcomes = Guarded<[FreshnessWaiters.Outcome]>([])
        // Beyond all changes, so that skipping the documents does not end it.
        index.whenFresh([VBucketID(0): AwaitedChange(Seqno(1_000))]) { ended in
            outcomes.withLock { $0.append(ended) }
        }
        try waitUntil("the wait ends") { !outcomes.withLock { $0.isEmpty } }
        index.whenFresh([VBucketID(0): AwaitedChange(Seqno(1_000))]) { ended in
            outcomes.withLock { $0.append(ended) }
        }
        try waitUntil("the later wait ends") { outcomes.withLock { $0.count } == 2 }
        #expect(outcomes.withLock { $0 } == [.ended, .ended])
        #expect(index.fault?.contains("Indexing stopped") == true)
        #expect(try world.reports(service).first?.fault == index.fault)
        try world.stop(service)
    }

    /// The documents are of one vBucket, so that the deep ones follow each other: as many ended
    /// processes in succession would stop the view.
    @Test func rowsThatNestTooDeepAreSkippedAlone() throws {
        defer { world.stop() }
        let ids = (0..<1_000).map { "k\($0)" }.filter { id in
            let count = MemoryChanges.vBuckets.count
            return VBucketID(ofKey: Array(id.utf8), count: count) == MemoryChanges.vBuckets[0]
        }
        let deep = 5..<(5 + RunawayRule.successionMax + 4)
        for (number, id) in ids.prefix(deep.upperBound + 5).enumerated() {
            // With the document, and the object of the row, 1 025 levels or 1 024.
            let levels = deep.contains(number) ? 1_023 : 1_022
            let brackets = ["[", "]"].map { String(repeating: $0, count: levels) }
            world.changes.put(id, "{\"n\":\(number),\"deep\":\(brackets.joined())}")
        }
        let view = world.view("d/a", "function (doc) { emit(doc.n, {doc: doc}); }")
        let service = try world.service()
        service.reconcile([world.bucket([view])])
        try world.awaitFresh(service, view)
        let report = try #require(try world.reports(service).first)
        #expect(report.fault == nil)
        #expect(report.status.rows == 10)
        #expect(report.status.errors.counts == [.notJSON: deep.count])
        let text = "A key or a value nests deeper than 1024 levels. Emit a part of it."
        #expect(report.status.errors.recent.allSatisfy { $0.text == text })
        try world.stop(service)
    }

    @Test func errorIsCountedWhenItsCommitSucceedsAndNotWithEachAttempt() throws {
        defer { world.stop() }
        // An array of characters that collation expands: short enough as text, too long as a key.
        let key = String(repeating: "\u{fdfa}", count: 1_300)
        world.changes.put("k", "{\"n\":\"\(key)\"}")
        fill()
        // All documents are in one batch, whose rows have 4 MB: there is no smaller commit.
        let view = world.view("d/a", "function (doc) { emit(doc.n, 'x'.repeat(100000)); }")
        let limited = try world.service { $0.files.filePagesMax = 32 }
        limited.reconcile([world.bucket([view])])
        try waitUntil("two commits fail") { world.logCount("retries every second") > 1 }
        #expect(try world.reports(limited).first?.status.errors.counts == [:])
        try world.stop(limited)
        let service = try world.service()
        service.reconcile([world.bucket([view])])
        try world.awaitFresh(service, view)
        #expect(try world.reports(service).first?.status.errors.counts == [.keyTooLong: 1])
        try world.stop(service)
    }

    @Test func feedThatStandsStillIsEndedAndOpenedAgain() throws {
        defer { world.stop() }
        fill()
        for vBucket in MemoryChanges.vBuckets { world.changes.stall(vBucket) }
        let view = world.view("d/a", IndexFaultTests.byNumber)
        let service = try world.service()
        service.reconcile([world.bucket([view])])
        try world.awaitFresh(service, view)
        #expect(try world.reports(service).first?.status.rows == 40)
        try world.stop(service)
    }

    @Test func stopFailsEveryItemOfPendingWorks() throws {
        defer { world.stop() }
        let lane = world.environment.lanes.makeLane("scripts")
        let pool = ScriptPool(
            world.environment,
            lane: lane,
            category: "views",
            limits: ScriptScheduleLimits(processors: 2)
        )
        let function = pool.function(
            "function () { while (true) {} }",
            .map,
            ofBucket: "b",
            timeoutMilliseconds: 10_000
        )
        var writer = ScriptWorkWriter(.map, function)
        for _ in 0..<3 {
            let text = Array("{}".utf8)
            text.withUnsafeBytes { bytes in
                writer.append(stamp: 1, first: ByteView(bytes), second: ByteView(bytes))
            }
        }
        let work = writer.finish()
        let results = Guarded<[ScriptResults]>([])
        let isStopped = Guarded(false)
        let add: ScriptPool.Done = { result in results.withLock { $0.append(result) } }
        pool.submit(work, done: add)
        pool.stop { isStopped.withLock { $0 = true } }
        pool.submit(work, done: add)
        try waitUntil("the pool has stopped") {
            isStopped.withLock { $0 } && results.withLock { $0.count } == 2
        }
        for result in results.withLock({ $0 }) {
            #expect(result.isStopped)
            #expect(result.failures.map(\.item) == [0, 1, 2])
        }
        lane.stop()
    }
}
